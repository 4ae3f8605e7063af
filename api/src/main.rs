//! Wiring only: what was typed goes to the library, its exit code to the operating system.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use weir_engine::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Of each thread that is started, unless somebody has said otherwise. Those who read and run queries go as deep as these are
/// nested; memory is taken for as much as is used.
const STACK_BYTES: &str = "8388608";
const STACK_VARIABLE: &str = "RUST_MIN_STACK";

/// How long the end waits for whoever is printing; results may be on their way into a pipe that nobody reads.
const PRINTING_MAX: Duration = Duration::from_secs(1);

fn main() -> ! {
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
    leave(weir_api::run(&weir_api::cli::Arguments::read()))
}

/// Ends the process as it stands. A return from `main` would first destroy what C++ libraries have static, locks among it, while
/// threads may still be inside them: in a read that takes longer than the end waits for, or in the last steps of closing a store.
/// Such a thread had the process aborted behind `Stopped.`. By now everything is written, synced and, where it is temporary,
/// removed; all else that a return would do is to print what is held back of a line.
fn leave(code: ExitCode) -> ! {
    let (done, printing) = crossbeam_channel::bounded(2);
    let print = move || {
        let mut out = stdout().lock();
        let _ = done.send(());
        let _ = (out.flush(), done.send(()));
    };
    // Where there can be no further thread the channel ends at once.
    let printer = std::thread::Builder::new().name("last line".to_owned()).spawn(print);
    if printer.is_ok() && printing.recv_timeout(PRINTING_MAX).is_ok() {
        // However slowly it is read.
        let _ = printing.recv();
    }
    // There is no other way to get at the number.
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(u8::MAX);
    weir_api::exit(number)
}
