//! Signatures, digests, random texts and sealed ones: the only place of this crate that knows `ring`, which TLS calculates with,
//! too.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use thiserror::Error;

/// What a text that nobody guesses has of chance.
const RANDOM_BYTES: usize = 32;

/// The machine gives no random numbers.
#[derive(Debug, Error)]
#[error("the machine gives no random numbers")]
pub struct NoChance;

/// How a token may be signed. There is none for `none`, nor for a secret that both sides know (HS256 and its like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    const ALL: [(&str, Algorithm); 9] = [
        ("RS256", Algorithm::Rs256),
        ("RS384", Algorithm::Rs384),
        ("RS512", Algorithm::Rs512),
        ("PS256", Algorithm::Ps256),
        ("PS384", Algorithm::Ps384),
        ("PS512", Algorithm::Ps512),
        ("ES256", Algorithm::Es256),
        ("ES384", Algorithm::Es384),
        ("EdDSA", Algorithm::EdDsa),
    ];

    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    fn of_rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }
}

/// A key that signatures are checked with.
#[derive(Clone, Debug, PartialEq)]
pub enum PublicKey {
    /// Modulus and exponent, without zeros before them.
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point, in full.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> PublicKey {
        let bare = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
        PublicKey::Rsa { modulus: bare(modulus), exponent: bare(exponent) }
    }

    /// A point of a curve, by its name; none where it has the wrong length or the curve is not known.
    pub fn point(curve: &str, x: &[u8], y: &[u8]) -> Option<PublicKey> {
        let whole = || [&[4], x, y].concat();
        match (curve, x.len(), y.len()) {
            ("P-256", 32, 32) => Some(PublicKey::P256(whole())),
            ("P-384", 48, 48) => Some(PublicKey::P384(whole())),
            _ => None,
        }
    }

    pub fn ed25519(x: &[u8]) -> Option<PublicKey> {
        (x.len() == 32).then(|| PublicKey::Ed25519(x.to_vec()))
    }

    /// Whether signatures of this kind are made with such a key.
    pub fn suits(&self, algorithm: Algorithm) -> bool {
        match self {
            PublicKey::Rsa { .. } => algorithm.of_rsa().is_some(),
            PublicKey::P256(_) => algorithm == Algorithm::Es256,
            PublicKey::P384(_) => algorithm == Algorithm::Es384,
            PublicKey::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }

    /// Whether the owner of the key has signed this.
    pub fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let of = |by: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(by, key).verify(message, signature).is_ok()
        };
        match (self, algorithm) {
            (PublicKey::Rsa { modulus, exponent }, _) => algorithm.of_rsa().is_some_and(|parameters| {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature).is_ok()
            }),
            (PublicKey::P256(key), Algorithm::Es256) => of(&ECDSA_P256_SHA256_FIXED, key),
            (PublicKey::P384(key), Algorithm::Es384) => of(&ECDSA_P384_SHA384_FIXED, key),
            (PublicKey::Ed25519(key), Algorithm::EdDsa) => of(&ED25519, key),
            _ => false,
        }
    }
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// As it stands in tokens and URLs.
pub fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The inverse of `encode`.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], NoChance> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoChance)?;
    Ok(bytes)
}

/// A text that nobody guesses.
pub fn random_text() -> Result<String, NoChance> {
    Ok(encode(&random::<RANDOM_BYTES>()?))
}

/// Seals texts that clients keep for weir: nobody else can read or make them. Its key is that of this life of the process.
pub struct Seal(LessSafeKey);

impl Seal {
    pub fn new() -> Result<Seal, NoChance> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &random::<32>()?).map_err(|_| NoChance)?;
        Ok(Seal(LessSafeKey::new(key)))
    }

    /// `what` it is for: it is opened for nothing else.
    pub fn close(&self, what: &str, text: &[u8]) -> Result<String, NoChance> {
        let nonce = random::<NONCE_LEN>()?;
        let mut bytes = text.to_vec();
        let sealed = self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(what.as_bytes()), &mut bytes);
        sealed.map_err(|_| NoChance)?;
        Ok(encode(&[&nonce[..], &bytes].concat()))
    }

    /// None where it is not one of these, or was changed.
    pub fn open(&self, what: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = decode(sealed)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        Some(self.0.open_in_place(nonce, Aad::from(what.as_bytes()), &mut rest).ok()?.to_vec())
    }
}

/// The other side, for tests: keys that sign.
#[cfg(test)]
pub mod signing {
    use base64::prelude::BASE64_STANDARD;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
        KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
        RsaEncoding, RsaKeyPair,
    };
    use serde_json::{Value as Json, json};

    use super::*;

    /// Worth nothing outside.
    const RSA: &str = include_str!("rsa_for_tests.pem");

    #[derive(Clone)]
    pub struct Signer {
        algorithm: &'static str,
        pkcs8: Vec<u8>,
    }

    fn ecdsa(algorithm: &'static str, by: &'static EcdsaSigningAlgorithm) -> Signer {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(by, &SystemRandom::new()).expect("a key").as_ref().to_vec();
        Signer { algorithm, pkcs8 }
    }

    impl Signer {
        pub fn es256() -> Signer {
            ecdsa("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING)
        }

        /// One for each kind of key.
        pub fn all() -> [Signer; 4] {
            let lines: String = RSA.lines().filter(|line| !line.starts_with('-')).collect();
            let ed25519 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key").as_ref().to_vec();
            [
                Signer { algorithm: "RS256", pkcs8: BASE64_STANDARD.decode(lines).expect("PEM") },
                Signer::es256(),
                ecdsa("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
                Signer { algorithm: "EdDSA", pkcs8: ed25519 },
            ]
        }

        /// What its key signs with.
        pub fn algorithms(&self) -> Vec<&'static str> {
            match self.algorithm {
                "RS256" => vec!["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
                other => vec![other],
            }
        }

        /// The same key, for another of its algorithms.
        pub fn by(&self, algorithm: &'static str) -> Signer {
            Signer { algorithm, ..self.clone() }
        }

        fn ecdsa(&self) -> EcdsaKeyPair {
            let by = if self.algorithm == "ES384" { &ECDSA_P384_SHA384_FIXED_SIGNING } else { &ECDSA_P256_SHA256_FIXED_SIGNING };
            EcdsaKeyPair::from_pkcs8(by, &self.pkcs8, &SystemRandom::new()).expect("a key")
        }

        pub fn jwk(&self, id: &str) -> Json {
            match self.algorithm {
                "ES256" | "ES384" => {
                    let pair = self.ecdsa();
                    let point = &pair.public_key().as_ref()[1..];
                    let (x, y) = point.split_at(point.len() / 2);
                    let curve = if self.algorithm == "ES384" { "P-384" } else { "P-256" };
                    json!({"kty": "EC", "crv": curve, "kid": id, "x": encode(x), "y": encode(y)})
                }
                "EdDSA" => {
                    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8).expect("a key");
                    json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(pair.public_key().as_ref())})
                }
                _ => {
                    let public = RsaKeyPair::from_pkcs8(&self.pkcs8).expect("a key");
                    let public: RsaPublicKeyComponents<Vec<u8>> = public.public().into();
                    json!({"kty": "RSA", "kid": id, "n": encode(&public.n), "e": encode(&public.e)})
                }
            }
        }

        pub fn sign(&self, message: &[u8]) -> Vec<u8> {
            let random = SystemRandom::new();
            let by: &dyn RsaEncoding = match self.algorithm {
                "EdDSA" => {
                    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8).expect("a key");
                    return pair.sign(message).as_ref().to_vec();
                }
                "ES256" | "ES384" => return self.ecdsa().sign(&random, message).expect("signed").as_ref().to_vec(),
                "RS384" => &RSA_PKCS1_SHA384,
                "RS512" => &RSA_PKCS1_SHA512,
                "PS256" => &RSA_PSS_SHA256,
                "PS384" => &RSA_PSS_SHA384,
                "PS512" => &RSA_PSS_SHA512,
                _ => &RSA_PKCS1_SHA256,
            };
            let pair = RsaKeyPair::from_pkcs8(&self.pkcs8).expect("a key");
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(by, &random, message, &mut signature).expect("signed");
            signature
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_signed_by_a_pair_of_keys_has_a_name() {
        for (name, algorithm) in Algorithm::ALL {
            assert_eq!(Algorithm::named(name), Some(algorithm));
        }
        for other in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "rs256", "RS1", "ES512", "ES256K", "Ed25519"] {
            assert_eq!(Algorithm::named(other), None, "{other}");
        }
    }

    #[test]
    fn a_seal_opens_what_it_has_closed_and_nothing_else() {
        let seal = Seal::new().expect("chance");
        let sealed = seal.close("login", b"text").expect("chance");
        assert_eq!(seal.open("login", &sealed).as_deref(), Some(&b"text"[..]));
        assert_ne!(seal.close("login", b"text").expect("chance"), sealed);
        assert_eq!(seal.open("another", &sealed), None);
        assert_eq!(Seal::new().expect("chance").open("login", &sealed), None);
        for at in [0, sealed.len() / 2, sealed.len() - 2] {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open("login", &String::from_utf8_lossy(&changed)), None, "at {at}");
        }
        for other in ["", "x", "AAAA", &sealed[..20]] {
            assert_eq!(seal.open("login", other), None, "{other}");
        }
    }

    #[test]
    fn keys_take_only_what_is_made_with_them() {
        let rsa = PublicKey::rsa(&[0, 0, 1, 2], &[0, 1, 0, 1]);
        assert_eq!(rsa, PublicKey::Rsa { modulus: vec![1, 2], exponent: vec![1, 0, 1] });
        let p256 = PublicKey::point("P-256", &[1; 32], &[2; 32]).expect("a point");
        let p384 = PublicKey::point("P-384", &[1; 48], &[2; 48]).expect("a point");
        let ed25519 = PublicKey::ed25519(&[1; 32]).expect("a key");
        for (key, algorithms) in [
            (rsa, vec!["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
            (p256, vec!["ES256"]),
            (p384, vec!["ES384"]),
            (ed25519, vec!["EdDSA"]),
        ] {
            for (name, algorithm) in Algorithm::ALL {
                assert_eq!(key.suits(algorithm), algorithms.contains(&name), "{key:?} {name}");
                assert!(!key.has_signed(algorithm, b"text", b"no signature"));
            }
        }
        assert_eq!(PublicKey::point("P-256", &[1; 31], &[2; 32]), None);
        assert_eq!(PublicKey::point("P-521", &[1; 66], &[2; 66]), None);
        assert_eq!(PublicKey::ed25519(&[1; 31]), None);
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(encode(&sha256(b"abc")), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
        assert_ne!(random_text().expect("chance"), random_text().expect("chance"));
    }
}
