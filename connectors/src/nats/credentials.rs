//! Logins of NATS that prove a key: what `nsc` and `nk` write to files, and the signature of what a server asks.
//!
//! A seed is text: base32 of two bytes that say what it is for, 32 bytes of an Ed25519 seed, and a checksum of both.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// What a user's public key has in the upper bits of its first byte.
const USER: u8 = 20 << 3;

/// What a seed has there.
const SEED: u8 = 18 << 3;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Who logs in, and proves it.
pub struct Credentials {
    /// What an account says of the user.
    pub token: Option<String>,
    pair: Ed25519KeyPair,
}

impl Credentials {
    /// From a file as `nsc` writes it, with a token and a seed, or from a seed alone.
    pub fn read(text: &str) -> Result<Credentials, String> {
        let part = |name: &str| {
            let (_, behind) = text.split_once(&format!("-----BEGIN {name}-----"))?;
            // The line behind it is the part; the one that closes it is told by its dashes.
            behind.lines().map(str::trim).find(|line| !line.is_empty()).filter(|line| !line.starts_with('-'))
        };
        let token = part("NATS USER JWT").map(str::to_owned);
        let seed = part("USER NKEY SEED").or_else(|| Some(text.trim()).filter(|text| text.starts_with("SU")));
        let seed = seed.ok_or("holds no seed of a user (a text that begins with SU)")?;
        let bytes = decoded(seed).ok_or("holds a seed that is damaged")?;
        let raw = match bytes.as_slice() {
            [first, second, raw @ ..] if raw.len() == 32 && first & 0xf8 == SEED => {
                if (first & 7) << 5 | (second & 0xf8) >> 3 != USER {
                    return Err("holds a seed that is not that of a user".to_owned());
                }
                raw
            }
            _ => return Err("holds a seed that is damaged".to_owned()),
        };
        let pair = Ed25519KeyPair::from_seed_unchecked(raw).map_err(|_| "holds a seed that is damaged")?;
        Ok(Credentials { token, pair })
    }

    /// The public key, as servers know the user by it.
    pub fn user(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        encoded(bytes)
    }

    /// The signature of what the server has asked.
    pub fn signature(&self, asked: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.sign(asked.as_bytes()))
    }
}

/// Base32 without padding, its checksum taken off.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut buffer, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)? as u32;
        buffer = (buffer << 5 | value) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    let sum = bytes.split_off(bytes.len().checked_sub(2)?);
    (checksum(&bytes).to_le_bytes() == sum[..]).then_some(bytes)
}

fn encoded(mut bytes: Vec<u8>) -> String {
    bytes.extend(checksum(&bytes).to_le_bytes());
    let (mut text, mut buffer, mut bits) = (String::new(), 0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8 | u32::from(byte)) & 0xffff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(buffer >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(buffer << (5 - bits) & 31) as usize]));
    }
    text
}

/// CRC-16 as XMODEM has it.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    /// As `nk -gen user` writes them: 32 times the byte 7.
    fn seed() -> String {
        let mut bytes = vec![SEED | USER >> 5, (USER & 31) << 3];
        bytes.extend([7; 32]);
        encoded(bytes)
    }

    #[test]
    fn a_seed_signs_as_the_user_whose_key_it_tells() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        let seed = seed();
        assert!(seed.starts_with("SUA"), "{seed}");
        let credentials = Credentials::read(&format!(" {seed}\n")).map_err(|problem| problem.to_owned()).unwrap();
        assert!(credentials.token.is_none() && credentials.user().starts_with('U') && credentials.user().len() == 56);
        let signature = URL_SAFE_NO_PAD.decode(credentials.signature("asked")).unwrap();
        let public = decoded(&credentials.user()).unwrap()[1..].to_vec();
        UnparsedPublicKey::new(&ED25519, public).verify(b"asked", &signature).unwrap();
        let file = format!(
            "-----BEGIN NATS USER JWT-----\nabc.def\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{seed}\r\n------END USER NKEY SEED------\n"
        );
        let read = Credentials::read(&file).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!((read.token.as_deref(), read.user()), (Some("abc.def"), credentials.user()));
        // As a server is told of one.
        let known = Credentials::read("SUAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB6IC5CQ")
            .unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(known.user(), "UB43KVROR7TFJ6KAPCYRF2FJROTZAH4FHLTJLPWX4DRZCC5NASLGJBFE");
        let damaged = seed.replace("SUA", "SUB");
        for (text, problem) in [("", "no seed"), (damaged.as_str(), "damaged"), ("SU", "damaged"), ("SU1", "damaged")] {
            assert!(Credentials::read(text).err().unwrap().contains(problem), "{text}");
        }
        let mut account = vec![SEED, 0];
        account.extend([7; 32]);
        assert!(
            Credentials::read(&format!("-----BEGIN USER NKEY SEED-----\n{}\n", encoded(account)))
                .err()
                .unwrap()
                .contains("not that of a user")
        );
    }
}
