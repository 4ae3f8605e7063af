//! Thread: builders of threads that are named after what users called their streams, outputs and queries.

/// A thread whose name says what it does, and for which of them. A name may hold what the system takes in none.
pub fn named(what: &str, whose: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("{what} {}", whose.replace('\0', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_will_do() {
        for whose in ["", "a", "\0", "é\0\n"] {
            named("test", whose).spawn(|| ()).expect("it starts").join().expect("it ends");
        }
    }
}
