//! Wiring only: what was typed goes to the library, its exit code to the operating system.

use std::process::ExitCode;

use clap::Parser;
use weir_engine::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    // A huge page is cleared in one go, milliseconds in which nothing else happens: most of the latency's tail.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    weir_engine::scheduling::prompt();
    weir_api::run(&weir_api::cli::Arguments::parse())
}
