//! What the operating system knows of the process and the machine. Where it does not tell, figures are zero.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Of the running process.
#[derive(Default, Debug)]
pub struct Process {
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub threads: u64,
    pub open_files: u64,
    pub cpu_seconds: f64,
    /// Since the Unix epoch.
    pub start_seconds: f64,
}

impl Process {
    pub fn read() -> Process {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        // The name of the program, in brackets, may hold spaces.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default() as f64;
        Process {
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            threads: line(&status, "Threads:"),
            open_files: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            cpu_seconds: if fields.is_empty() { 0.0 } else { (field(14) + field(15)) / ticks },
            start_seconds: if fields.is_empty() { 0.0 } else { boot_seconds() + field(22) / ticks },
        }
    }
}

/// The memory of the machine, or of the container where that has less.
pub fn memory_bytes_total() -> u64 {
    static TOTAL: LazyLock<u64> = LazyLock::new(|| {
        let machine = kilobytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:");
        container_bytes().map_or(machine, |container| container.min(machine))
    });
    *TOTAL
}

/// The least that the groups allow in which the process is; of either generation of them.
fn container_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let files =
        root.join(own).ancestors().map(|group| group.join("memory.max")).take_while(|file| file.starts_with(root)).collect();
    let files: Vec<PathBuf> = files;
    let bytes = |file: &Path| fs::read_to_string(file).ok()?.trim().parse().ok();
    files.iter().chain([&root.join("memory/memory.limit_in_bytes")]).filter_map(|file| bytes(file)).min()
}

fn boot_seconds() -> f64 {
    static BOOT: LazyLock<u64> = LazyLock::new(|| line(&fs::read_to_string("/proc/stat").unwrap_or_default(), "btime"));
    *BOOT as f64
}

fn kilobytes(text: &str, name: &str) -> u64 {
    line(text, name) << 10
}

/// The first number of the line that begins with the name.
fn line(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    rest.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_known() {
        let process = Process::read();
        assert!(process.resident_bytes > 1 << 20 && process.resident_bytes < memory_bytes_total(), "{process:?}");
        assert!(process.threads >= 1 && process.open_files >= 3 && process.start_seconds > 1e9, "{process:?}");
    }
}
