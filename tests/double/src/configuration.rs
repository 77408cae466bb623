//! What a test can plant: every `RUNGWISE_DOUBLE_*` variable, in one place; those of NVML's double stand in `nvml.rs`, that
//! of cuBLASLt's in `blaslt.rs`.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `DEVICES` | 1 | devices that the driver shows |
//! | `NAME` | `Driver double` | name of every device |
//! | `CAPABILITY` | `9.0` | compute capability |
//! | `SMS` | 132 | multiprocessors |
//! | `MEMORY_BYTES` | 140 GiB | memory of a device |
//! | `OTHERS_BYTES` | 0 | memory that other processes hold |
//! | `OTHERS_MOVE` | | `EVERY_NS:BYTES`: in every second such span other processes hold so many bytes more |
//! | `DRIVER_VERSION` | 12090 | what `cuDriverGetVersion` says |
//! | `PTX_VERSION` | `8.8` | newest PTX that the driver takes |
//! | `COMPUTE_MODE` | 0 | 0 default, 2 prohibited, 3 exclusive process |
//! | `BUSY` | 0 | 1: another process holds the device: exclusive mode refuses |
//! | `DISPLAY` | 0 | 1: a display hangs on the devices, whose driver ends kernels that run for seconds |
//! | `MIG` | 0 | 1: the devices are MIG instances |
//! | `INIT_STATUS` | 0 | what `cuInit` returns |
//! | `FAIL` | | `NAME:N=STATUS`, separated by commas: the Nth call of NAME returns STATUS and does nothing |
//! | `KERNELS` | | the CPU executor; without it kernels take time and compute nothing |
//! | `ORDER` | 0 | thread order that the executor is asked for |
//! | `REPORT` | | file that gets violations, leaks and notes, see [`crate::report`] |
//!
//! What things cost in virtual time and memory; nanoseconds unless said otherwise:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `CALL_NS` | 100 | host: every call not named below |
//! | `CONTEXT_NS` | 200,000,000 | host: creating the context |
//! | `ALLOCATE_NS` | 60,000 | host: `cuMemAlloc`, `cuMemFree` |
//! | `MODULE_NS` | 30,000,000 | host: loading a module |
//! | `LAUNCH_NS` | 2,600 | host: launching a kernel, a copy or a memset |
//! | `LATENCY_NS` | 1,800 | from a launch to its start on an idle device |
//! | `GAP_NS` | 900 | device: between the kernels of a stream |
//! | `KERNEL_NS` | 1,500 | device: the shortest kernel |
//! | `CLOCK_MHZ` | 1,980 | the SM clock, of which the clock kernel counts cycles |
//! | `STAIRS` | | `SYMBOL=ROWS:NS,ROWS:NS;...`: a kernel's time by its rows, constant up to the next step |
//! | `BANDWIDTH_GB_PER_S` | 4,300 | device: copies and memsets, bytes read plus bytes written |
//! | `SYNCHRONIZE_NS` | 2,000 | host: returning from a wait, besides the call |
//! | `CAPTURE_NS` | 8,000 | host: beginning and ending a capture, together |
//! | `CAPTURE_LAUNCH_NS` | 1,200 | host: a launch that is captured |
//! | `INSTANTIATE_NS`, `INSTANTIATE_NODE_NS` | 20,000, 900 | host: instantiating, fixed and per node |
//! | `UPLOAD_NS`, `UPLOAD_NODE_NS` | 5,000, 60 | host: uploading, or the first launch without |
//! | `REPLAY_NS`, `REPLAY_NODE_NS` | 3,500, 12 | host: launching a graph |
//! | `GRAPH_NS`, `NODE_NS` | 2,500, 350 | device: running a graph, fixed and per node on its longest path |
//! | `UPDATE_NS`, `UPDATE_NODE_NS` | 3,000, 350 | host: updating an executable graph |
//! | `CONTEXT_BYTES` | 500 MiB | device memory of a context |
//! | `EXEC_BYTES`, `EXEC_NODE_BYTES` | 65,536, 10,240 | device memory of an executable graph, fixed and per node |
//!
//! What makes times differ from that, see `disturbance.rs`; the device's but for those of the host:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `NOISE_PERMILLE`, `SEED` | 0 | largest deviation of each duration to either side, and how it is drawn |
//! | `HOST_NOISE_PERMILLE` | 0 | host: the same of what each call takes, drawn from the same seed and not with the device's |
//! | `DRIFT_PERMILLE_PER_S` | 0 | how much longer everything takes after each second |
//! | `DIP` | | `FROM_NS:FOR_NS:PERMILLE`: a span in which everything takes longer, for the SM clock is that much slower |
//! | `NEIGHBOUR` | | `EVERY_NS:FOR_NS:PERMILLE`: the same, again and again |
//! | `HOST_DIP` | | as `DIP`, of what each call takes on the host, whose clock is not seen |

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::disturbance::{Disturbance, Span};

const PREFIX: &str = "RUNGWISE_DOUBLE_";

/// Everything that can be planted.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) devices: u32,
    pub(crate) name: String,
    pub(crate) capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) others_bytes: u64,
    /// After how long other processes take or give back memory, and how much.
    pub(crate) others_move: Option<(u64, u64)>,
    pub(crate) driver_version: i32,
    pub(crate) ptx_version: (u32, u32),
    pub(crate) compute_mode: i32,
    pub(crate) is_busy: bool,
    /// The attribute that says whether kernels are ended that run for seconds.
    pub(crate) kernel_timeout: u32,
    pub(crate) is_mig: bool,
    pub(crate) init_status: u32,
    pub(crate) failures: Vec<PlantedFailure>,
    pub(crate) kernels: Option<PathBuf>,
    pub(crate) order: u32,
    pub(crate) report: Option<PathBuf>,
    /// `CUDA_MODULE_LOADING=EAGER`, as the real driver reads it at `cuInit`.
    pub(crate) is_eager: bool,
    pub(crate) costs: Costs,
    pub(crate) disturbance: Disturbance,
}

/// A call that fails because a test wants it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlantedFailure {
    pub(crate) function: String,
    /// Which call of it, from 1.
    pub(crate) call: u64,
    pub(crate) status: u32,
}

/// What things cost, as the table above names them.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) call_ns: u64,
    pub(crate) context_ns: u64,
    pub(crate) allocate_ns: u64,
    pub(crate) module_ns: u64,
    pub(crate) launch_ns: u64,
    pub(crate) latency_ns: u64,
    pub(crate) gap_ns: u64,
    pub(crate) kernel_ns: u64,
    pub(crate) clock_mhz: u64,
    pub(crate) stairs: BTreeMap<String, Stairs>,
    pub(crate) bandwidth_gb_per_s: u64,
    pub(crate) synchronize_ns: u64,
    pub(crate) capture_ns: u64,
    pub(crate) capture_launch_ns: u64,
    pub(crate) instantiate_ns: u64,
    pub(crate) instantiate_node_ns: u64,
    pub(crate) upload_ns: u64,
    pub(crate) upload_node_ns: u64,
    pub(crate) replay_ns: u64,
    pub(crate) replay_node_ns: u64,
    pub(crate) graph_ns: u64,
    pub(crate) node_ns: u64,
    pub(crate) update_ns: u64,
    pub(crate) update_node_ns: u64,
    pub(crate) context_bytes: u64,
    pub(crate) exec_bytes: u64,
    pub(crate) exec_node_bytes: u64,
}

/// A time by rows: that of the largest step not above them, the first step's below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stairs(BTreeMap<u64, u64>);

impl Stairs {
    pub(crate) fn at(&self, rows: u64) -> u64 {
        let step = self.0.range(..=rows).next_back().or_else(|| self.0.first_key_value());
        step.map_or(0, |(_, ns)| *ns)
    }
}

impl Configuration {
    /// Reads the process's environment.
    ///
    /// # Panics
    /// On a value that cannot be read: a test that plants nothing would prove nothing.
    pub(crate) fn from_environment() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Nothing planted.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self::planted(&[])
    }

    /// Variables without their prefix.
    #[cfg(test)]
    pub(crate) fn planted(variables: &[(&str, &str)]) -> Self {
        Self::read(|asked| {
            let name = asked.strip_prefix(PREFIX)?;
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(&format!("{PREFIX}{name}"));
        let number = |name: &str, default: u64| text(name).map_or(default, |value| parsed(name, &value));
        let is_on = |name: &str| number(name, 0) != 0;
        let pair = |name: &str, default: (u32, u32)| {
            text(name).map_or(default, |value| {
                let (major, minor) = value.split_once('.').unwrap_or((&value, "0"));
                (parsed(name, major), parsed(name, minor))
            })
        };
        Self {
            devices: number("DEVICES", 1) as u32,
            name: text("NAME").unwrap_or_else(|| "Driver double".to_owned()),
            capability: pair("CAPABILITY", (9, 0)),
            multiprocessors: number("SMS", 132) as u32,
            memory_bytes: number("MEMORY_BYTES", 140 << 30),
            others_bytes: number("OTHERS_BYTES", 0),
            others_move: text("OTHERS_MOVE").map(|value| moving(&value)),
            driver_version: text("DRIVER_VERSION").map_or(12_090, |value| parsed("DRIVER_VERSION", &value)),
            ptx_version: pair("PTX_VERSION", (8, 8)),
            compute_mode: text("COMPUTE_MODE").map_or(0, |value| parsed("COMPUTE_MODE", &value)),
            is_busy: is_on("BUSY"),
            kernel_timeout: u32::from(is_on("DISPLAY")),
            is_mig: is_on("MIG"),
            init_status: number("INIT_STATUS", 0) as u32,
            failures: text("FAIL").map_or_else(Vec::new, |value| failures(&value)),
            kernels: text("KERNELS").map(PathBuf::from),
            order: number("ORDER", 0) as u32,
            report: text("REPORT").map(PathBuf::from),
            is_eager: variable("CUDA_MODULE_LOADING").is_some_and(|value| value == "EAGER"),
            costs: Costs {
                call_ns: number("CALL_NS", 100),
                context_ns: number("CONTEXT_NS", 200_000_000),
                allocate_ns: number("ALLOCATE_NS", 60_000),
                module_ns: number("MODULE_NS", 30_000_000),
                launch_ns: number("LAUNCH_NS", 2_600),
                latency_ns: number("LATENCY_NS", 1_800),
                gap_ns: number("GAP_NS", 900),
                kernel_ns: number("KERNEL_NS", 1_500),
                clock_mhz: number("CLOCK_MHZ", 1_980).max(1),
                stairs: text("STAIRS").map_or_else(BTreeMap::new, |value| stairs(&value)),
                bandwidth_gb_per_s: number("BANDWIDTH_GB_PER_S", 4_300).max(1),
                synchronize_ns: number("SYNCHRONIZE_NS", 2_000),
                capture_ns: number("CAPTURE_NS", 8_000),
                capture_launch_ns: number("CAPTURE_LAUNCH_NS", 1_200),
                instantiate_ns: number("INSTANTIATE_NS", 20_000),
                instantiate_node_ns: number("INSTANTIATE_NODE_NS", 900),
                upload_ns: number("UPLOAD_NS", 5_000),
                upload_node_ns: number("UPLOAD_NODE_NS", 60),
                replay_ns: number("REPLAY_NS", 3_500),
                replay_node_ns: number("REPLAY_NODE_NS", 12),
                graph_ns: number("GRAPH_NS", 2_500),
                node_ns: number("NODE_NS", 350),
                update_ns: number("UPDATE_NS", 3_000),
                update_node_ns: number("UPDATE_NODE_NS", 350),
                context_bytes: number("CONTEXT_BYTES", 500 << 20),
                exec_bytes: number("EXEC_BYTES", 65_536),
                exec_node_bytes: number("EXEC_NODE_BYTES", 10_240),
            },
            disturbance: Disturbance {
                seed: number("SEED", 0),
                noise_permille: number("NOISE_PERMILLE", 0),
                host_noise_permille: number("HOST_NOISE_PERMILLE", 0),
                drift_permille_per_s: number("DRIFT_PERMILLE_PER_S", 0),
                host_dip: text("HOST_DIP").map(|value| span("HOST_DIP", &value)),
                dip: text("DIP").map(|value| span("DIP", &value)),
                neighbour: text("NEIGHBOUR").map(|value| span("NEIGHBOUR", &value)),
            },
        }
    }
}

fn parsed<T: FromStr>(name: &str, value: &str) -> T {
    value.trim().parse().unwrap_or_else(|_| refuse(name, value))
}

fn refuse(name: &str, value: &str) -> ! {
    panic!("driver double: {PREFIX}{name} cannot be {value:?}")
}

fn span(name: &str, value: &str) -> Span {
    let parts: Vec<_> = value.split(':').map(|part| parsed(name, part)).collect();
    match parts[..] {
        [from_ns, for_ns, permille] => Span { from_ns, for_ns, permille },
        _ => refuse(name, value),
    }
}

fn moving(value: &str) -> (u64, u64) {
    let (every_ns, bytes) = value.split_once(':').unwrap_or_else(|| refuse("OTHERS_MOVE", value));
    (parsed::<u64>("OTHERS_MOVE", every_ns).max(1), parsed("OTHERS_MOVE", bytes))
}

fn failures(value: &str) -> Vec<PlantedFailure> {
    let one = |failure: &str| {
        let (call, status) = failure.split_once('=')?;
        let (function, call) = call.split_once(':')?;
        let (call, status) = (parsed("FAIL", call), parsed("FAIL", status));
        Some(PlantedFailure { function: function.trim().to_owned(), call, status })
    };
    let planted = value.split(',').filter(|failure| !failure.trim().is_empty());
    planted.map(|failure| one(failure).unwrap_or_else(|| refuse("FAIL", value))).collect()
}

fn stairs(value: &str) -> BTreeMap<String, Stairs> {
    let one = |flight: &str| {
        let (symbol, steps) = flight.split_once('=')?;
        let steps: Option<BTreeMap<u64, u64>> = steps
            .split(',')
            .map(|step| step.split_once(':').map(|(rows, ns)| (parsed("STAIRS", rows), parsed("STAIRS", ns))))
            .collect();
        Some((symbol.trim().to_owned(), Stairs(steps?)))
    };
    let planted = value.split(';').filter(|flight| !flight.trim().is_empty());
    planted.map(|flight| one(flight).unwrap_or_else(|| refuse("STAIRS", value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Configuration {
        Configuration::planted(&[(name, value)])
    }

    #[test]
    fn planted_values_are_read() {
        assert_eq!(with("PTX_VERSION", "8.0").ptx_version, (8, 0));
        assert_eq!(with("LAUNCH_NS", "7").costs.launch_ns, 7);
        let planted = PlantedFailure { function: "cuMemAlloc_v2".to_owned(), call: 3, status: 2 };
        assert_eq!(with("FAIL", "cuMemAlloc_v2:3=2").failures, [planted]);
        assert_eq!(with("DIP", "5:6:7").disturbance.dip, Some(Span { from_ns: 5, for_ns: 6, permille: 7 }));
        let stairs = with("STAIRS", "a=1:100,16:300;b=0:5").costs.stairs;
        let at = |rows| stairs["a"].at(rows);
        assert_eq!((at(0), at(1), at(15), at(16), at(999), stairs["b"].at(7)), (100, 100, 100, 300, 300, 5));
    }

    #[test]
    #[should_panic(expected = "RUNGWISE_DOUBLE_STAIRS cannot be \"a\"")]
    fn a_value_that_plants_nothing_is_refused() {
        with("STAIRS", "a");
    }
}
