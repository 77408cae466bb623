//! One shape of product, described once and run many times.
//!
//! cuBLASLt is column-major: a row-major matrix is its transpose there. `out = input x weight^T` row by row is
//! `out^T = weight x input^T`: A is the weight, stored `[inputs, outputs]` column by column and transposed; B is the input,
//! `[inputs, rows]`; D is the output, `[outputs, rows]`. Its rows are the outputs, to which the bias epilogue adds. This is
//! also the layout in which PyTorch calls it, so that the same kernels are chosen.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use kernels::launch::{Address, Product};

use super::error::BlasltError;
use super::functions::{
    Algorithm, BF16, COMPUTE_FLOAT, Description, EPILOGUE_BIAS, FLOAT, Functions, Handle, Heuristic, Layout,
    TRANSPOSED, description, preference,
};

/// Memory that an algorithm may use while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulWorkspace {
    /// Where, aligned to 256 bytes.
    pub address: Address,
    /// How much.
    pub bytes: u64,
}

/// What an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    rows: u32,
    outputs: u32,
    inputs: u32,
    has_bias: bool,
    /// The power of two that every address is a multiple of, at most 256.
    alignment: u32,
    workspace_bytes: u64,
}

impl Shape {
    fn of(product: &Product, workspace: MatmulWorkspace) -> Self {
        let addresses = [product.out, product.input, product.weight, product.bias];
        let together = addresses.into_iter().fold(256, |bits, address| bits | address.0);
        Self {
            rows: product.rows.0,
            outputs: product.outputs,
            inputs: product.inputs,
            has_bias: product.bias != Address::NONE,
            alignment: 1 << together.trailing_zeros(),
            workspace_bytes: workspace.bytes,
        }
    }
}

/// Every plan so far, so that each shape has one.
#[derive(Debug, Default)]
pub(super) struct Plans(RefCell<BTreeMap<Shape, Rc<Plan>>>);

impl Plans {
    /// The plan for a product: made when its shape is first seen.
    pub(super) fn of(
        &self,
        functions: Functions,
        handle: Handle,
        product: &Product,
        workspace: MatmulWorkspace,
    ) -> Result<Rc<Plan>, BlasltError> {
        let shape = Shape::of(product, workspace);
        if let Some(plan) = self.0.borrow().get(&shape) {
            return Ok(Rc::clone(plan));
        }
        let plan = Rc::new(Plan::new(functions, handle, shape, product.bias)?);
        self.0.borrow_mut().insert(shape, Rc::clone(&plan));
        Ok(plan)
    }
}

/// One shape, described, with the algorithm that cuBLASLt's heuristic chose for it.
#[derive(Debug)]
pub(super) struct Plan {
    described: Described,
    algorithm: Algorithm,
    workspace_bytes: usize,
}

impl Plan {
    /// Describes the shape, and asks for its algorithm: once, so that every run of it is the same. The bias of `product`
    /// counts by its alignment only.
    fn new(functions: Functions, handle: Handle, shape: Shape, bias: Address) -> Result<Self, BlasltError> {
        let described = Described::new(functions, shape)?;
        described.set_bias(bias)?;
        let wishes = Wishes::new(functions, shape)?;
        let mut chosen = Heuristic::default();
        let mut found: c_int = 0;
        let Described { description, weight, input, out, .. } = described;
        // SAFETY: handle and descriptions are open; the pointers are to locals, and one result is asked for.
        let asked = unsafe {
            functions.heuristic(
                handle,
                description,
                weight,
                input,
                out,
                out,
                wishes.raw,
                1,
                &raw mut chosen,
                &raw mut found,
            )
        };
        let Shape { rows, outputs, inputs, workspace_bytes, .. } = shape;
        let none = BlasltError::NoAlgorithm { rows, outputs, inputs, workspace_bytes };
        match asked {
            Ok(()) if found >= 1 && chosen.status == 0 && chosen.workspace_bytes as u64 <= workspace_bytes => {
                let Heuristic { algorithm, workspace_bytes, .. } = chosen;
                Ok(Self { described, algorithm, workspace_bytes })
            }
            // 15, NOT_SUPPORTED, is how the heuristic says that it found none.
            Ok(()) | Err(BlasltError::Call { status: 15, .. }) => Err(none),
            Err(error) => Err(error),
        }
    }

    /// Puts the product on the stream. Nothing is allocated and nothing is waited for, so that it may be captured.
    ///
    /// # Safety
    /// The product has this plan's shape, its operands and the workspace are device memory that lives until the stream has
    /// run it, and the stream is alive.
    pub(super) unsafe fn enqueue(
        &self,
        handle: Handle,
        product: &Product,
        workspace: MatmulWorkspace,
        stream: *mut c_void,
    ) -> Result<(), BlasltError> {
        let (one, zero) = (1.0_f32, 0.0_f32);
        let Described { functions, description, weight, input, out, .. } = &self.described;
        self.described.set_bias(product.bias)?;
        let pointer = |address: Address| std::ptr::without_provenance_mut::<c_void>(address.0 as usize);
        let result = pointer(product.out);
        // SAFETY: the descriptions are open; the factors are read before it returns; the rest is the caller's.
        unsafe {
            functions.matmul(
                handle,
                *description,
                (&raw const one).cast(),
                pointer(product.weight),
                *weight,
                pointer(product.input),
                *input,
                (&raw const zero).cast(),
                result,
                *out,
                result,
                *out,
                &raw const self.algorithm,
                pointer(workspace.address),
                self.workspace_bytes,
                stream,
            )
        }
    }
}

/// The descriptions of one shape, destroyed when dropped.
#[derive(Debug)]
struct Described {
    functions: Functions,
    description: Description,
    weight: Layout,
    input: Layout,
    out: Layout,
}

impl Described {
    fn new(functions: Functions, shape: Shape) -> Result<Self, BlasltError> {
        let none = std::ptr::null_mut();
        let mut described = Self { functions, description: none, weight: none, input: none, out: none };
        // SAFETY: the pointer is to a field of a local.
        unsafe { functions.description_create(&raw mut described.description, COMPUTE_FLOAT, FLOAT) }?;
        described.set(description::TRANSPOSE_A, &TRANSPOSED)?;
        if shape.has_bias {
            described.set(description::EPILOGUE, &EPILOGUE_BIAS)?;
            described.set(description::BIAS_TYPE, &BF16)?;
        }
        let (rows, outputs, inputs) = (shape.rows, shape.outputs, shape.inputs);
        described.weight = layout(functions, inputs, outputs)?;
        described.input = layout(functions, inputs, rows)?;
        described.out = layout(functions, outputs, rows)?;
        Ok(described)
    }

    /// The bias is part of the description, not of the call; without one nothing is set.
    fn set_bias(&self, bias: Address) -> Result<(), BlasltError> {
        if bias == Address::NONE { Ok(()) } else { self.set(description::BIAS_POINTER, &bias.0) }
    }

    fn set<T>(&self, attribute: u32, value: &T) -> Result<(), BlasltError> {
        let value = &raw const *value;
        // SAFETY: the description is open; the value lives through the call, which copies it.
        unsafe { self.functions.description_set(self.description, attribute, value.cast(), size_of::<T>()) }
    }
}

/// A packed column-major bf16 matrix.
fn layout(functions: Functions, rows: u32, columns: u32) -> Result<Layout, BlasltError> {
    let mut layout = std::ptr::null_mut();
    // SAFETY: the pointer is to a local that lives through the call.
    unsafe { functions.layout_create(&raw mut layout, BF16, rows.into(), columns.into(), rows.into()) }?;
    Ok(layout)
}

impl Drop for Described {
    fn drop(&mut self) {
        for layout in [self.weight, self.input, self.out] {
            if !layout.is_null() {
                // SAFETY: it was created by this library, and is not used again.
                let _ = unsafe { self.functions.layout_destroy(layout) };
            }
        }
        if !self.description.is_null() {
            // SAFETY: as above.
            let _ = unsafe { self.functions.description_destroy(self.description) };
        }
    }
}

/// What the heuristic may use, destroyed when dropped.
struct Wishes {
    functions: Functions,
    raw: *mut c_void,
}

impl Wishes {
    fn new(functions: Functions, shape: Shape) -> Result<Self, BlasltError> {
        let mut wishes = Self { functions, raw: std::ptr::null_mut() };
        // SAFETY: the pointer is to a field of a local.
        unsafe { functions.preference_create(&raw mut wishes.raw) }?;
        wishes.set(preference::WORKSPACE_BYTES_MAX, &shape.workspace_bytes)?;
        for alignment in preference::ALIGNMENTS {
            wishes.set(alignment, &shape.alignment)?;
        }
        Ok(wishes)
    }

    fn set<T>(&self, attribute: u32, value: &T) -> Result<(), BlasltError> {
        let value = &raw const *value;
        // SAFETY: the preference is open; the value lives through the call, which copies it.
        unsafe { self.functions.preference_set(self.raw, attribute, value.cast(), size_of::<T>()) }
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: it was created by this library, and is not used again.
            let _ = unsafe { self.functions.preference_destroy(self.raw) };
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
