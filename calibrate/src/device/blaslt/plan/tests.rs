//! The mapping of row-major products onto column-major ones, against a stand-in for the library that multiplies column by
//! column on the host, as cuBLASLt's documentation defines it.

use std::cell::RefCell;

use kernels::units::Rows;

use super::*;

#[derive(Debug, Default)]
struct StandIn {
    compute: (c_int, c_int),
    transpose_a: i32,
    epilogue: u32,
    bias_type: c_int,
    bias: u64,
}

#[derive(Debug)]
struct StandInLayout {
    element: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
}

thread_local! {
    /// Open objects, and what the preference was told.
    static OPEN: RefCell<i32> = const { RefCell::new(0) };
    static WISHES: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
    static ALGORITHMS: RefCell<c_int> = const { RefCell::new(1) };
    static HEURISTICS: RefCell<i32> = const { RefCell::new(0) };
}

fn open<T>(out: *mut *mut c_void, value: T) -> c_int {
    OPEN.with_borrow_mut(|open| *open += 1);
    // SAFETY: the caller gives a pointer to an address.
    unsafe { *out = Box::into_raw(Box::new(value)).cast() };
    0
}

/// # Safety
/// `raw` came from `open` with the same type, and is closed once.
unsafe fn close<T>(raw: *mut c_void) -> c_int {
    OPEN.with_borrow_mut(|open| *open -= 1);
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(raw.cast::<T>()) });
    0
}

unsafe extern "C" fn version() -> usize {
    120_901
}

unsafe extern "C" fn create(_: *mut Handle) -> c_int {
    0
}

unsafe extern "C" fn destroy(_: Handle) -> c_int {
    0
}

unsafe extern "C" fn description_create(out: *mut Description, compute: c_int, scale: c_int) -> c_int {
    open(out, StandIn { compute: (compute, scale), ..StandIn::default() })
}

unsafe extern "C" fn description_destroy(raw: Description) -> c_int {
    // SAFETY: it came from `description_create`.
    unsafe { close::<StandIn>(raw) }
}

unsafe extern "C" fn description_set(raw: Description, attribute: u32, value: *const c_void, bytes: usize) -> c_int {
    // SAFETY: it came from `description_create`; the value has the size that is said, which is checked.
    unsafe {
        let description = &mut *raw.cast::<StandIn>();
        match (attribute, bytes) {
            (3, 4) => description.transpose_a = *value.cast(),
            (7, 4) => description.epilogue = *value.cast(),
            (8, 8) => description.bias = *value.cast(),
            (26, 4) => description.bias_type = *value.cast(),
            _ => return 7,
        }
    }
    0
}

unsafe extern "C" fn layout_create(out: *mut Layout, element: c_int, rows: u64, columns: u64, leading: i64) -> c_int {
    open(out, StandInLayout { element, rows, columns, leading })
}

unsafe extern "C" fn layout_destroy(raw: Layout) -> c_int {
    // SAFETY: it came from `layout_create`.
    unsafe { close::<StandInLayout>(raw) }
}

unsafe extern "C" fn preference_create(out: *mut *mut c_void) -> c_int {
    WISHES.take();
    open(out, ())
}

unsafe extern "C" fn preference_destroy(raw: *mut c_void) -> c_int {
    // SAFETY: it came from `preference_create`.
    unsafe { close::<()>(raw) }
}

unsafe extern "C" fn preference_set(_: *mut c_void, attribute: u32, value: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the value has the size that is said.
    let value = match bytes {
        4 => u64::from(unsafe { *value.cast::<u32>() }),
        // SAFETY: as above.
        8 => unsafe { *value.cast::<u64>() },
        _ => return 7,
    };
    WISHES.with_borrow_mut(|wishes| wishes.push((attribute, value)));
    0
}

unsafe extern "C" fn heuristic(
    _: Handle,
    _: Description,
    _: Layout,
    _: Layout,
    _: Layout,
    _: Layout,
    _: *mut c_void,
    asked: c_int,
    results: *mut Heuristic,
    found: *mut c_int,
) -> c_int {
    if asked != 1 {
        return 7;
    }
    HEURISTICS.with_borrow_mut(|asked| *asked += 1);
    // SAFETY: both pointers are to one value each.
    unsafe {
        (*results).workspace_bytes = 4096;
        *found = ALGORITHMS.with_borrow(|algorithms| *algorithms);
    }
    0
}

fn value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds a small whole number, which bf16 holds exactly.
fn bits(value: f32) -> u16 {
    assert_eq!(value.to_bits() & 0xffff, 0, "{value} is no bf16");
    (value.to_bits() >> 16) as u16
}

unsafe extern "C" fn matmul(
    _: Handle,
    description: Description,
    alpha: *const c_void,
    a: *const c_void,
    a_layout: Layout,
    b: *const c_void,
    b_layout: Layout,
    beta: *const c_void,
    _: *const c_void,
    _: Layout,
    d: *mut c_void,
    d_layout: Layout,
    _: *const Algorithm,
    _: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the objects came from the functions above; the matrices are host memory as large as their layouts say.
    unsafe {
        let description = &*description.cast::<StandIn>();
        let [a_layout, b_layout, d_layout] = [a_layout, b_layout, d_layout].map(|it| &*it.cast::<StandInLayout>());
        let as_agreed = (description.compute, *alpha.cast::<u32>(), *beta.cast::<u32>(), workspace_bytes);
        let layouts = [a_layout, b_layout, d_layout];
        let fits =
            (a_layout.rows, a_layout.columns, b_layout.columns) == (b_layout.rows, d_layout.rows, d_layout.columns);
        // Nothing panics in a foreign function: what is wrong is a status, as in the library.
        if as_agreed != ((68, 0), 1.0_f32.to_bits(), 0, 4096) || stream.addr() != 77 {
            return 7;
        }
        if !fits
            || description.transpose_a != 1
            || layouts.iter().any(|it| it.element != 14 || it.leading as u64 != it.rows)
        {
            return 7;
        }
        // Column-major: element (row, column) is at row + column * leading.
        let element = |matrix: *const c_void, layout: &StandInLayout, row: u64, column: u64| {
            value(*matrix.cast::<u16>().add((row + column * layout.leading as u64) as usize))
        };
        for row in 0..d_layout.rows {
            for column in 0..d_layout.columns {
                let products =
                    (0..b_layout.rows).map(|it| element(a, a_layout, it, row) * element(b, b_layout, it, column));
                let mut sum: f32 = products.sum();
                if description.epilogue == 4 {
                    if description.bias_type != 14 {
                        return 7;
                    }
                    let bias = std::ptr::with_exposed_provenance::<u16>(description.bias as usize);
                    sum += value(*bias.add(row as usize));
                }
                *d.cast::<u16>().add((row + column * d_layout.leading as u64) as usize) = bits(sum);
            }
        }
    }
    0
}

fn stand_in() -> Functions {
    Functions {
        version,
        create,
        destroy,
        description_create,
        description_destroy,
        description_set,
        layout_create,
        layout_destroy,
        preference_create,
        preference_destroy,
        preference_set,
        heuristic,
        matmul,
    }
}

const WORKSPACE: MatmulWorkspace = MatmulWorkspace { address: Address(0x1000), bytes: 1 << 20 };

/// Numbers that differ from each other and stay exact.
fn numbers(count: usize, step: usize) -> Vec<u16> {
    (0..count).map(|place| bits(((place * step) % 7) as f32 - 3.0)).collect()
}

fn address(values: &[u16]) -> Address {
    Address(values.as_ptr().expose_provenance() as u64)
}

fn check(rows: usize, outputs: usize, inputs: usize, has_bias: bool) {
    let (input, weight, bias) = (numbers(rows * inputs, 3), numbers(outputs * inputs, 5), numbers(outputs, 2));
    let mut out = vec![0_u16; rows * outputs];
    let product = Product {
        out: Address(out.as_mut_ptr().expose_provenance() as u64),
        input: address(&input),
        weight: address(&weight),
        bias: if has_bias { address(&bias) } else { Address::NONE },
        rows: Rows(rows as u32),
        outputs: outputs as u32,
        inputs: inputs as u32,
    };
    // The bias at hand counts, not that of the product which the plan was made for.
    let other = numbers(outputs, 4);
    let first = if has_bias { address(&other) } else { Address::NONE };
    let plan = Plan::new(stand_in(), std::ptr::null_mut(), Shape::of(&product, WORKSPACE), first).unwrap();
    let stream = std::ptr::without_provenance_mut(77);
    // SAFETY: the stand-in multiplies at once, in the host memory above.
    unsafe { plan.enqueue(std::ptr::null_mut(), &product, WORKSPACE, stream) }.unwrap();
    for row in 0..rows {
        for output in 0..outputs {
            let products = (0..inputs).map(|it| value(input[row * inputs + it]) * value(weight[output * inputs + it]));
            let expected = products.sum::<f32>() + if has_bias { value(bias[output]) } else { 0.0 };
            assert_eq!(out[row * outputs + output], bits(expected), "row {row}, output {output}");
        }
    }
}

#[test]
fn row_major_products_are_what_the_reference_says() {
    for (rows, outputs, inputs) in [(1, 8, 8), (3, 5, 8), (7, 2, 16), (4, 4, 4)] {
        check(rows, outputs, inputs, false);
        check(rows, outputs, inputs, true);
    }
    assert_eq!(OPEN.take(), 0, "everything created was destroyed");
}

fn product(out: u64, bias: u64) -> Product {
    let [input, weight] = [Address(0x2000), Address(0x3000)];
    Product { out: Address(out), input, weight, bias: Address(bias), rows: Rows(3), outputs: 8, inputs: 16 }
}

#[test]
fn the_heuristic_knows_alignment_and_workspace() {
    for (out, bias, alignment) in [(0x4000, 0, 256), (0x4010, 0, 16), (0x4000, 0x5040, 64), (0x4002, 0x5040, 2)] {
        let product = product(out, bias);
        Plan::new(stand_in(), std::ptr::null_mut(), Shape::of(&product, WORKSPACE), product.bias).unwrap();
        let expected = [(1, 1 << 20), (5, alignment), (6, alignment), (7, alignment), (8, alignment)];
        assert_eq!(WISHES.take(), expected, "{out:#x} {bias:#x}");
    }
}

#[test]
fn the_heuristic_is_asked_once_a_shape() {
    HEURISTICS.set(0);
    let plans = Plans::default();
    let mut larger = product(0x4000, 0);
    larger.rows = Rows(4);
    // The same shape at other addresses, other rows, another alignment, a bias.
    let asked =
        [product(0x4000, 0), product(0x9000, 0), larger, product(0x4010, 0), product(0x4000, 0x5000)].map(|it| {
            plans.of(stand_in(), std::ptr::null_mut(), &it, WORKSPACE).unwrap();
            HEURISTICS.with_borrow(|asked| *asked)
        });
    assert_eq!(asked, [1, 1, 2, 3, 4]);
    drop(plans);
    assert_eq!(OPEN.take(), 0);
}

#[test]
fn a_shape_without_an_algorithm_is_an_error() {
    ALGORITHMS.set(0);
    let product = product(0x4000, 0);
    let plan = Plan::new(stand_in(), std::ptr::null_mut(), Shape::of(&product, WORKSPACE), product.bias);
    let expected = BlasltError::NoAlgorithm { rows: 3, outputs: 8, inputs: 16, workspace_bytes: 1 << 20 };
    assert_eq!(plan.unwrap_err(), expected);
    ALGORITHMS.set(1);
    // One that wants more workspace than there is does not count.
    let little = MatmulWorkspace { bytes: 64, ..WORKSPACE };
    assert!(Plan::new(stand_in(), std::ptr::null_mut(), Shape::of(&product, little), product.bias).is_err());
    assert_eq!(OPEN.take(), 0, "failures leave nothing open");
}

/// Makes and drops the descriptions of a shape with a bias in a real library.
pub(in super::super) fn describe_and_drop(functions: Functions) {
    let shape = Shape::of(&product(0x4000, 0x5000), WORKSPACE);
    let described = Described::new(functions, shape).unwrap();
    described.set_bias(Address(0x5000)).unwrap();
    Wishes::new(functions, shape).unwrap();
    // Its checks are real: an attribute of another size is refused.
    assert!(described.set(description::TRANSPOSE_A, &1_u8).is_err());
}
