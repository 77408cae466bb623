//! `--list` and `--device` on the doubles: names, NVML, and the state of the machine.

use crate::double::Double;

/// Prints the state of the machine, and finds no room to measure then.
const STATE_ALONE: [&str; 4] = ["--device", "0", "--memory-limit", "1MiB"];

/// The GPU's part of what `--device` prints; what is around it is that of the machine that tests run on.
fn gpu_part(output: &str) -> String {
    let lines = output.lines().skip_while(|line| *line != "GPU").take_while(|line| !line.contains("NUMA node"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Codes of the concerns that come from the GPU.
fn concerns(output: &str) -> Vec<String> {
    const OF_THE_HOST: [&str; 9] =
        ["wsl", "governor", "cpu_quota", "few_cpus", "host_load", "clock_source", "numa", "mps", "concerns"];
    let lines = output.lines().skip_while(|line| !line.starts_with("concerns"));
    let codes = lines.filter_map(|line| line.split_once(": ").map(|(code, _)| code.trim().to_owned()));
    codes.filter(|code| !code.contains(' ') && !OF_THE_HOST.contains(&code.as_str())).collect()
}

#[test]
fn both_indices_of_every_card() {
    let variables = [("RUNGWISE_DOUBLE_DEVICES", "2"), ("RUNGWISE_DOUBLE_NVML_HIDDEN", "1")];
    let output = Double::driver_and_nvml().calibrate(&["--list"], &variables);
    assert_eq!((output.code(), output.stderr()), (Some(0), ""));
    insta::assert_snapshot!(output.stdout(), @r"
    driver   the tests' driver double, version 1: nothing here comes from a GPU
    driver   CUDA 12.9

    CUDA  nvidia-smi  name           UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
    0     1           Driver double  GPU-d00b7275-6e67-7769-7365-20646f750000  0000:11:00.0  4.00 MiB     140.00 GiB    9.0         off  default
    1     0           Driver double  GPU-d00b7275-6e67-7769-7365-20646f750001  0000:10:00.0  4.00 MiB     140.00 GiB    9.0         off  default
    -     2           Driver double  GPU-d00b7275-6e67-7769-7365-20646f750002  0000:12:00.0  4.00 MiB     140.00 GiB    -           off  default

    Devices without a CUDA index are not shown to this process.
    CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
    CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
    ");
}

#[test]
fn a_list_without_nvml() {
    let output = Double::driver().calibrate(&["--list"], &[("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]);
    assert_eq!((output.code(), output.stderr()), (Some(0), ""));
    if !output.stdout().contains("libnvidia-ml.so.1 cannot be loaded") {
        eprintln!("skipped: this machine has NVML");
        return;
    }
    insta::assert_snapshot!(output.stdout(), @r"
    driver   the tests' driver double, version 1: nothing here comes from a GPU
    driver   CUDA 12.9

    CUDA  nvidia-smi  name           UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
    0     -           Driver double  GPU-d00b7275-6e67-7769-7365-20646f750000  0000:10:00.0  -            140.00 GiB    9.0         -    default

    nvidia-smi's index, memory in use and MIG are not available: libnvidia-ml.so.1 cannot be loaded.
    CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
    CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA numbers devices as nvidia-smi does.
    ");
}

#[test]
fn instances_have_both_their_names() {
    let output = Double::driver_and_nvml().calibrate(&["--list"], &[("RUNGWISE_DOUBLE_MIG", "1")]);
    insta::assert_snapshot!(output.stdout(), @r"
    driver   the tests' driver double, version 1: nothing here comes from a GPU
    driver   CUDA 12.9

    CUDA  nvidia-smi  name                       UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
    0     0           Driver double MIG 1g.18gb  MIG-d10b7275-6e67-7769-7365-20646f750000  0000:10:00.0  4.00 MiB     140.00 GiB    9.0         7/0  default

    CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
    CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
    ");
}

#[test]
fn every_name_finds_its_device() {
    let double = Double::driver_and_nvml();
    let device = |name: &str, mig: &str| {
        let variables = [("RUNGWISE_DOUBLE_DEVICES", "3"), ("RUNGWISE_DOUBLE_MIG", mig)];
        let output = double.calibrate(&["--device", name, "--memory-limit", "1MiB"], &variables);
        let found = output.stdout().lines().find_map(|line| line.strip_prefix("device   "));
        found.map_or_else(|| output.stderr().to_owned(), |line| line.split(',').next().unwrap_or("").to_owned())
    };
    for name in ["1", "GPU-d00b7275-6e67-7769-7365-20646f750001", "0000:11:00.0", "11:0.0", "00000000:11:00.0"] {
        assert_eq!(device(name, "0"), "1: Driver double", "{name}");
    }
    let old = "MIG-GPU-d00b7275-6e67-7769-7365-20646f750002/7/0";
    for name in ["2", "MIG-d10b7275-6e67-7769-7365-20646f750002", old, "GPU-d00b7275-6e67-7769-7365-20646f750002"] {
        assert_eq!(device(name, "1"), "2: Driver double MIG 1g.18gb", "{name}");
    }
    insta::assert_snapshot!(device("7", "0"), @r"
    × device 7 is not there: CUDA shows this process 3 devices
    help: use one of these:
            0: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750000, 0000:12:00.0
            1: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750001, 0000:11:00.0
            2: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750002, 0000:10:00.0
          CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
          CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI
          address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
    ");
    insta::assert_snapshot!(device("GPU-d00b", "0"), @r"
    × device GPU-d00b fits 3 of the devices that CUDA shows to this process
    help: name one of them in full:
            0: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750000, 0000:12:00.0
            1: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750001, 0000:11:00.0
            2: Driver double, GPU-d00b7275-6e67-7769-7365-20646f750002, 0000:10:00.0
    ");
    // A MIG instance's name on cards that are not cut.
    assert!(device("MIG-d10b7275-6e67-7769-7365-20646f750002", "0").contains("CUDA_VISIBLE_DEVICES=MIG-"));
}

#[test]
fn a_quiet_card_is_printed_and_has_no_concerns() {
    let output = Double::driver_and_nvml().calibrate(&STATE_ALONE, &[("RUNGWISE_DOUBLE_NVML_HIDDEN", "1")]);
    assert_eq!(output.code(), Some(3), "{}", output.stderr());
    insta::assert_snapshot!(gpu_part(output.stdout()), @r"
    GPU
      nvidia-smi index 0
      driver           575.57.08
      power limit      700 W, default 700 W, in force 700 W
      power drawn      76 W
      clocks held by   idle
      SM clock         345 MHz of at most 1980 MHz
      memory clock     3201 MHz of at most 3201 MHz
      temperature      31 C
      ECC              on
      persistence      on
      MIG              off
      compute mode     default
      virtualization   none
      processes        none
      busy             0 %
      memory used      4.00 MiB
      PCIe link        gen 1 x16 of at most gen 5 x16
    ");
    assert_eq!(concerns(output.stdout()), <[&str; 0]>::default());
}

#[test]
fn what_is_planted_in_nvml_is_a_concern() {
    let double = Double::driver_and_nvml();
    for (variable, value, expected) in [
        ("POWER_ENFORCED", "400000", "power_limit"),
        ("POWER_LIMIT", "400000", "power_limit"),
        ("POWER_DEFAULT", "900000", "power_limit"),
        ("REASONS", "64", "throttled"),
        ("REASONS", "2", "clocks_set"),
        ("PROCESSES", "4242:1073741824,77:5", "other_processes"),
        ("PROCESSES", "denied", "processes_unknown"),
        ("MEMORY_USED", "9000000000", "memory_held"),
        ("BUSY", "97", "busy"),
        ("VIRTUALIZATION", "2", "vgpu"),
        ("VIRTUALIZATION", "3", "vgpu_host"),
        ("PERSISTENCE", "0", "persistence_off"),
        ("ECC", "0", "ecc"),
        ("LINK_WIDTH", "4", "pcie_width"),
        ("INIT", "9", "gpu_state_unknown"),
    ] {
        let name = format!("RUNGWISE_DOUBLE_NVML_{variable}");
        let output = double.calibrate(&STATE_ALONE, &[(&name, value)]);
        assert_eq!(concerns(output.stdout()), [expected], "{variable}={value}");
    }
    let output = double.calibrate(&STATE_ALONE, &[("RUNGWISE_DOUBLE_MIG", "1")]);
    assert_eq!(concerns(output.stdout()), ["mig"]);
}

#[test]
fn an_older_name_is_asked_where_the_newer_is_missing() {
    let variables =
        [("RUNGWISE_DOUBLE_NVML_PROCESSES_V3", "missing"), ("RUNGWISE_DOUBLE_NVML_PROCESSES", "4242:1073741824")];
    let run = Double::driver_and_nvml().calibrate(&STATE_ALONE, &variables);
    assert!(run.stdout().contains("processes        4242 (1.00 GiB)"), "{}", run.stdout());
    // No permission is another answer than no function: the older one would not be allowed either.
    let denied = [("RUNGWISE_DOUBLE_NVML_PROCESSES_V3", "denied"), variables[1]];
    let run = Double::driver_and_nvml().calibrate(&STATE_ALONE, &denied);
    assert!(run.stdout().contains("processes        not available (no permission)"), "{}", run.stdout());
}

#[test]
fn every_fact_can_be_missing_alone() {
    let double = Double::driver_and_nvml();
    let variables =
        ["DRIVER", "POWER_LIMIT", "REASONS", "SM_CLOCK", "TEMPERATURE", "ECC", "VIRTUALIZATION", "BUSY", "LINK_WIDTH"];
    let names = variables.map(|variable| format!("RUNGWISE_DOUBLE_NVML_{variable}"));
    let words = ["unsupported", "denied", "missing"];
    let planted: Vec<_> = names.iter().zip(words.iter().cycle()).map(|(name, word)| (name.as_str(), *word)).collect();
    let output = double.calibrate(&STATE_ALONE, &planted);
    insta::assert_snapshot!(gpu_part(output.stdout()), @r"
    GPU
      nvidia-smi index 0
      driver           not available (not supported here)
      power limit      not available (no permission)
      power drawn      76 W
      clocks held by   not available (this driver has no nvmlDeviceGetCurrentClocksThrottleReasons)
      SM clock         not available (not supported here)
      memory clock     3201 MHz of at most 3201 MHz
      temperature      not available (no permission)
      ECC              not available (this driver has no nvmlDeviceGetEccMode)
      persistence      on
      MIG              off
      compute mode     default
      virtualization   not available (not supported here)
      processes        none
      busy             not available (no permission)
      memory used      4.00 MiB
      PCIe link        not available (this driver has no nvmlDeviceGetCurrPcieLinkWidth)
    ");
    let output = double.calibrate(&STATE_ALONE, &[("RUNGWISE_DOUBLE_NVML_INIT", "18")]);
    insta::assert_snapshot!(gpu_part(output.stdout()), @r"
    GPU
      state            not available (NVML and the kernel driver are of different versions: reboot after a driver update)
    ");
}
