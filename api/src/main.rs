//! Wiring only: what was typed goes to the library, its exit code to the operating system.

use std::process::ExitCode;

use weir_engine::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Of each thread that is started, unless somebody has said otherwise. Those who read and run queries go as deep as these are
/// nested; memory is taken for as much as is used.
const STACK_BYTES: &str = "8388608";
const STACK_VARIABLE: &str = "RUST_MIN_STACK";

fn main() -> ExitCode {
    if std::env::var_os(STACK_VARIABLE).is_none() {
        #[expect(unsafe_code, reason = "the standard library has no other way to say it for threads that others start")]
        // SAFETY: there is no other thread yet that could look at the variables.
        unsafe {
            std::env::set_var(STACK_VARIABLE, STACK_BYTES);
        }
    }
    // A huge page is cleared in one go, milliseconds in which nothing else happens: most of the latency's tail.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    weir_engine::scheduling::prompt();
    weir_api::run(&weir_api::cli::Arguments::read())
}
