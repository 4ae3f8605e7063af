//! The token that says who asks. It stands in a file or in a variable: what stands on a command line everybody on the machine
//! can read.

use std::path::{Path, PathBuf};

use weir_connectors::http::RequestBuilder;

use super::Problem;

const VARIABLE: &str = "WEIR_TOKEN";

/// What is no token is not read to its end.
const BYTES_MAX: usize = 64 << 10;

/// Where it is. A file is read with each request: tokens end soon, and whoever gets another one writes it there.
#[derive(Clone, Debug, Default)]
pub struct Token {
    file: Option<PathBuf>,
}

impl Token {
    /// Without a file that of the variable, if there is one.
    pub fn of(file: Option<&Path>) -> Token {
        Token { file: file.map(Path::to_path_buf) }
    }

    pub fn is_there(&self) -> bool {
        self.file.is_some() || std::env::var_os(VARIABLE).is_some_and(|token| !token.is_empty())
    }

    pub fn shown_with(&self, request: RequestBuilder) -> Result<RequestBuilder, Problem> {
        Ok(match self.read().map_err(Problem::Unreachable)? {
            // In no message: the header is marked as a secret.
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    fn read(&self) -> Result<Option<String>, String> {
        let (text, place) = match &self.file {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                let place = file.display().to_string();
                (read.map_err(|error| format!("the token cannot be read from {place}: {error}"))?, place)
            }
            None => match std::env::var(VARIABLE) {
                Ok(token) if !token.trim().is_empty() => (token, VARIABLE.to_owned()),
                _ => return Ok(None),
            },
        };
        token(&text).map(Some).ok_or_else(|| format!("{place} holds no token: one word of ASCII is wanted"))
    }
}

/// The one word of a text.
fn token(text: &str) -> Option<String> {
    let word = text.trim();
    let is_word = !word.is_empty() && word.len() <= BYTES_MAX && word.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_word() {
        assert_eq!(token("a.b-c_d\n").as_deref(), Some("a.b-c_d"));
        for wrong in ["", " \n", "two words", "a\nb", "é", "a\u{0}b"] {
            assert_eq!(token(wrong), None, "{wrong:?}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let read = |text: Option<&str>| {
            match text {
                Some(text) => std::fs::write(&file, text).expect("a file"),
                None => std::fs::remove_file(&file).expect("a file"),
            }
            Token::of(Some(&file)).read()
        };
        assert_eq!(read(Some("one\n")), Ok(Some("one".to_owned())));
        assert_eq!(read(Some("two")), Ok(Some("two".to_owned())), "it is read anew");
        let refused = read(Some("hush hush")).expect_err("two words");
        assert!(refused.contains("holds no token") && !refused.contains("hush"), "{refused}");
        assert!(read(None).expect_err("it is gone").contains("cannot be read"));
    }
}
