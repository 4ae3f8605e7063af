//! Wiring only: what was typed goes to the library, its exit code to the operating system.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    weir_api::run(&weir_api::cli::Arguments::parse())
}
