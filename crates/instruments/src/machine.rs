//! Description of this machine, and memory use of this process.
//!
//! On Linux the values come from `/proc`; on other systems unknown values are `None`.

pub use dapple_base::numbers::human_bytes;

use std::fs;

/// Returns the name of the CPU.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = ["model name", "Hardware", "Processor"]
        .iter()
        .find_map(|key| field(&text, key))?;
    Some(name.to_owned())
}

/// Returns the memory of the machine, bytes.
pub fn memory_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemTotal")
}

/// Returns the memory that is available without swapping, bytes.
pub fn available_memory_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable")
}

/// Returns the peak memory of this process, bytes.
pub fn peak_memory_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM")
}

/// Returns the operating system and its version.
pub fn operating_system() -> String {
    let release = fs::read_to_string("/etc/os-release").ok();
    let pretty = release.as_deref().and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="))
            .map(|name| name.trim_matches('"').to_owned())
    });
    let family = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    pretty.map_or(family.clone(), |name| format!("{name} ({family})"))
}

fn kibibytes(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = field(&text, key)?;
    let number: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

/// Returns the value after `key:` at the start of a line.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotalX: 1 kB\nMemTotal:   16 kB\n";
        assert_eq!(field(text, "MemTotal"), Some("16 kB"));
    }
}
