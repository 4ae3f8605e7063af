//! How a password is proven without telling it: MD5 as older servers ask for it, and SCRAM-SHA-256 (RFC 5802, 7677), by which the
//! server proves that it knows the password, too.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

pub const SCRAM: &str = "SCRAM-SHA-256";

/// Rounds that a server may ask for, at most: it is weir that calculates them.
const ROUNDS_MAX: u32 = 1_000_000;

/// The answer to a salt of four bytes.
pub fn md5(username: &str, password: &str, salt: &[u8]) -> String {
    let inner = hex(&Md5::digest([password.as_bytes(), username.as_bytes()].concat()));
    format!("md5{}", hex(&Md5::digest([inner.as_bytes(), salt].concat())))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A login by SCRAM on its way. No channel binding: what it adds to a certificate that is verified is little.
pub struct Scram {
    /// Empty for PostgreSQL, for which the name counts that the connection has.
    name: &'static str,
    password: String,
    nonce: String,
    /// What the server has to prove that it knows the password.
    expected: Option<(hmac::Key, String)>,
}

impl Scram {
    pub fn new(password: &str) -> Result<Scram, String> {
        let mut random = [0; 18];
        SystemRandom::new().fill(&mut random).map_err(|_| "this machine gives no random numbers".to_owned())?;
        Ok(Scram { name: "", password: password.to_owned(), nonce: STANDARD.encode(random), expected: None })
    }

    fn first_bare(&self) -> String {
        format!("n={},r={}", self.name, self.nonce)
    }

    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare())
    }

    /// The answer to the salt and the number of rounds.
    pub fn last(&mut self, server_first: &str) -> Result<String, String> {
        let odd = || "the server asks for the password in a way that is not SCRAM-SHA-256".to_owned();
        let part = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name));
        let (nonce, salt, rounds) = (part("r="), part("s="), part("i="));
        let (Some(nonce), Some(salt), Some(rounds)) = (nonce, salt, rounds) else { return Err(odd()) };
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(odd());
        }
        let salt = STANDARD.decode(salt).map_err(|_| odd())?;
        let rounds =
            rounds.parse::<u32>().ok().filter(|rounds| *rounds <= ROUNDS_MAX).and_then(NonZeroU32::new).ok_or_else(odd)?;
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, self.password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let all = format!("{},{server_first},{without_proof}", self.first_bare());
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, stored_key.as_ref()), all.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, sign)| key ^ sign).collect();
        let server_key = hmac::sign(&salted, b"Server Key");
        self.expected = Some((hmac::Key::new(hmac::HMAC_SHA256, server_key.as_ref()), all));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server knows the password.
    pub fn verify(&self, server_last: &str) -> Result<(), String> {
        let wrong = || "the server does not prove that it knows the password: it may be another one".to_owned();
        let (key, all) = self.expected.as_ref().ok_or_else(wrong)?;
        let signature = server_last.split(',').find_map(|part| part.strip_prefix("v=")).ok_or_else(wrong)?;
        let signature = STANDARD.decode(signature).map_err(|_| wrong())?;
        hmac::verify(key, all.as_bytes(), &signature).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_that_of_the_protocol() {
        // As `md5sum` calculates it, twice.
        assert_eq!(md5("weir", "geheim", &[1, 2, 3, 4]), "md552e3ce455ca59c462e1c31745c6f9222");
    }

    /// The exchange of RFC 7677.
    #[test]
    fn scram_is_that_of_its_standard() {
        let (password, nonce) = ("pencil".to_owned(), "rOprNGfwEbeRWgbNEkqO".to_owned());
        let mut scram = Scram { name: "user", password, nonce, expected: None };
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let whole = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let last = scram.last(&format!("r={whole},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")).unwrap();
        assert_eq!(last, format!("c=biws,r={whole},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        assert_eq!(scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert!(scram.verify("v=AAAA").is_err() && scram.verify("e=no").is_err());
        for odd in ["", "r=x,s=AAAA,i=1", "r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=1", "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=4000000000"] {
            assert!(scram.last(odd).is_err(), "{odd}");
        }
    }
}
