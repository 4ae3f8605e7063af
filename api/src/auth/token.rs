//! Tokens of a provider (JWT): read, checked, and turned into what they say. Pure: the keys and the time are given.
//!
//! What a token says is known to nobody before its signature was found right: there is one way to `Claims`, and it leads through
//! `check`.

use serde::Deserialize;
use serde_json::{Map as JsonMap, Value as Json};
use thiserror::Error;

use super::crypto::{Algorithm, PublicKey, decode};
use super::rights::Role;

/// A longer one is not looked at. Those of Keycloak have one or two KB.
pub const TOKEN_BYTES_MAX: usize = 32 << 10;

/// How far the clocks of a provider and of weir may be apart.
pub const LEEWAY_SECONDS: u64 = 30;

/// Keys that are tried where a token names none.
const TRIES_MAX: usize = 8;

/// Keys of a provider that are looked at.
const KEYS_MAX: usize = 64;

/// Why a token is none that counts.
#[derive(Debug, Error, PartialEq)]
pub enum TokenError {
    #[error("the token is longer than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token cannot be read: {0}")]
    Unreadable(&'static str),
    #[error(
        "the token is signed in a way that is not taken: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA are"
    )]
    Algorithm,
    #[error("the token needs an extension of its format that is not known here")]
    Critical,
    #[error("the key that the token names is not one of the provider")]
    UnknownKey,
    #[error("the key of the token is not for signatures of this kind")]
    Unsuited,
    #[error("the signature of the token is wrong")]
    Signature,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token was given to another program")]
    Party,
    #[error("the token is of a kind that is not for this: {0}")]
    Kind(&'static str),
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token does not say {0}")]
    Lacks(&'static str),
    #[error("the token belongs to another login")]
    Nonce,
}

/// What a token must be to count.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    /// Whom it is for.
    pub audience: &'a str,
    /// Where the roles stand.
    pub roles_claim: &'a str,
    pub purpose: Purpose<'a>,
}

#[derive(Clone, Copy)]
pub enum Purpose<'a> {
    /// Whoever has it may ask.
    Bearer,
    /// The end of the login that had this nonce.
    Login { nonce: &'a str },
}

/// What a token says that was found right.
#[derive(Debug, PartialEq)]
pub struct Claims {
    pub subject: String,
    /// What to call them, where it is told.
    pub name: Option<String>,
    pub roles: Vec<Role>,
    /// In seconds since 1970.
    pub expires: u64,
}

/// A key of a provider, and what it says of it.
#[derive(Debug, PartialEq)]
pub struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: PublicKey,
}

/// A document of keys (JWKS); what is no key for signatures, or of a kind that is not known, is left out.
pub fn keys(document: &Json) -> Vec<Key> {
    let listed = document.get("keys").and_then(Json::as_array).into_iter().flatten();
    listed.filter_map(key).take(KEYS_MAX).collect()
}

fn key(written: &Json) -> Option<Key> {
    let text = |name: &str| written.get(name).and_then(Json::as_str);
    let bytes = |name: &str| text(name).and_then(decode);
    let operations = written.get("key_ops").and_then(Json::as_array);
    let is_for_signatures = text("use").is_none_or(|purpose| purpose == "sig")
        && operations.is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
    if !is_for_signatures {
        return None;
    }
    let key = match text("kty")? {
        "RSA" => PublicKey::rsa(&bytes("n")?, &bytes("e")?),
        "EC" => PublicKey::point(text("crv")?, &bytes("x")?, &bytes("y")?)?,
        "OKP" if text("crv") == Some("Ed25519") => PublicKey::ed25519(&bytes("x")?)?,
        _ => return None,
    };
    let algorithm = match text("alg") {
        Some(name) => Some(Algorithm::named(name).filter(|algorithm| key.suits(*algorithm))?),
        None => None,
    };
    Some(Key { id: text("kid").map(str::to_owned), algorithm, key })
}

impl Key {
    fn suits(&self, algorithm: Algorithm) -> bool {
        self.key.suits(algorithm) && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Json>,
}

/// What the token says, if it is right. `now`: in seconds since 1970.
pub fn check(text: &str, keys: &[Key], expected: &Expected<'_>, now: u64) -> Result<Claims, TokenError> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Unreadable("it has no signature"))?;
    let (header, body) = signed.split_once('.').ok_or(TokenError::Unreadable("it has no body"))?;
    let of = |part: &str| decode(part).ok_or(TokenError::Unreadable("a part of it is no base64url"));
    let header: Header = serde_json::from_slice(&of(header)?)
        .map_err(|_| TokenError::Unreadable("its header is no JSON that names a signature"))?;
    let claims: JsonMap<String, Json> =
        serde_json::from_slice(&of(body)?).map_err(|_| TokenError::Unreadable("its body is no object of JSON"))?;
    let signature = of(signature)?;
    let algorithm = Algorithm::named(&header.alg).ok_or(TokenError::Algorithm)?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    // Before the keys: what has expired asks no provider for new ones. None of it is told to anybody as true.
    let claims = judged(&claims, header.typ.as_deref(), expected, now)?;
    signed_by_one(keys, header.kid.as_deref(), algorithm, signed.as_bytes(), &signature)?;
    Ok(claims)
}

fn signed_by_one(
    keys: &[Key],
    id: Option<&str>,
    algorithm: Algorithm,
    signed: &[u8],
    signature: &[u8],
) -> Result<(), TokenError> {
    let named: Vec<&Key> = keys.iter().filter(|key| id.is_none() || key.id.as_deref() == id).collect();
    if named.is_empty() {
        return Err(TokenError::UnknownKey);
    }
    let mut suited = named.into_iter().filter(|key| key.suits(algorithm)).take(TRIES_MAX).peekable();
    if suited.peek().is_none() {
        return Err(TokenError::Unsuited);
    }
    if suited.any(|key| key.key.has_signed(algorithm, signed, signature)) { Ok(()) } else { Err(TokenError::Signature) }
}

fn judged(claims: &JsonMap<String, Json>, kind: Option<&str>, expected: &Expected<'_>, now: u64) -> Result<Claims, TokenError> {
    let text = |name: &str| claims.get(name).and_then(Json::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(TokenError::Issuer);
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    if !audiences.contains(&expected.audience) {
        return Err(TokenError::Audience);
    }
    match expected.purpose {
        Purpose::Bearer => {
            let is_of_login = ["nonce", "at_hash", "c_hash"].into_iter().any(|name| claims.contains_key(name));
            may_bear(kind, text("typ"), is_of_login)?;
        }
        Purpose::Login { nonce } => {
            // OpenID Connect 1.0, 3.1.3.7: whom it was given to, where it is for several.
            let party = text("azp");
            if party.is_some_and(|party| party != expected.audience) || (party.is_none() && audiences.len() > 1) {
                return Err(TokenError::Party);
            }
            if text("nonce") != Some(nonce) {
                return Err(TokenError::Nonce);
            }
        }
    }
    let seconds = |name: &str| claims.get(name).map(|value| value.as_f64().filter(|at| at.is_finite()));
    let expires = seconds("exp").flatten().ok_or(TokenError::Lacks("when it expires"))?;
    let now = now as f64;
    if now >= expires + LEEWAY_SECONDS as f64 {
        return Err(TokenError::Expired);
    }
    match seconds("nbf") {
        Some(None) => return Err(TokenError::Unreadable("nbf is no time")),
        Some(Some(from)) if from > now + LEEWAY_SECONDS as f64 => return Err(TokenError::NotYet),
        _ => {}
    }
    let subject = text("sub").filter(|subject| !subject.is_empty()).ok_or(TokenError::Lacks("whom it is about"))?;
    let name = ["preferred_username", "name", "email"].into_iter().find_map(|name| text(name).filter(|name| !name.is_empty()));
    Ok(Claims {
        subject: subject.to_owned(),
        name: name.map(str::to_owned),
        roles: roles(claims, expected.roles_claim),
        expires: expires as u64,
    })
}

/// A token that says of itself that it is for something else than to ask with is not taken for that: whoever gets to see one of
/// those need not be trusted with more.
fn may_bear(header: Option<&str>, claim: Option<&str>, is_of_login: bool) -> Result<(), TokenError> {
    let kind = header.map(|kind| kind.to_ascii_lowercase());
    let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
    if !matches!(kind, None | Some("jwt" | "at+jwt")) {
        return Err(TokenError::Kind("its header names another"));
    }
    match claim {
        Some("ID") => Err(TokenError::Kind("an ID token tells a program who logged in")),
        Some("Refresh" | "Offline") => Err(TokenError::Kind("it is for getting another one")),
        Some("Logout") => Err(TokenError::Kind("it tells of a logout")),
        Some("Bearer") => Ok(()),
        // Few providers write a kind. What is written into tokens of logins alone tells them, too.
        _ if is_of_login && kind != Some("at+jwt") => Err(TokenError::Kind("an ID token tells a program who logged in")),
        _ => Ok(()),
    }
}

/// The claim of that name, or where none is called so the one that lies where the name leads with its dots. Names of roles that
/// nobody knows are dropped.
fn roles(claims: &JsonMap<String, Json>, claim: &str) -> Vec<Role> {
    let at_path = || {
        claim.split('.').try_fold(None, |at: Option<&Json>, part| match at {
            None => claims.get(part).map(Some),
            Some(inside) => inside.get(part).map(Some),
        })
    };
    let found = claims.get(claim).or_else(|| at_path().flatten());
    let names = found.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let mut roles: Vec<Role> = Vec::new();
    for role in names.filter_map(Role::named) {
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::crypto::encode;
    use super::super::crypto::signing::Signer;
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const ISSUER: &str = "https://login.example/realms/weir";

    const BEARER: Expected<'static> =
        Expected { issuer: ISSUER, audience: "weir", roles_claim: "roles", purpose: Purpose::Bearer };
    const LOGIN: Expected<'static> = Expected { purpose: Purpose::Login { nonce: "n-1" }, ..BEARER };

    fn claims(more: Json) -> Json {
        let mut claims =
            json!({"iss": ISSUER, "aud": "weir", "sub": "ann", "exp": NOW + 300, "roles": ["Analyst", "Nobody"], "azp": "weir"});
        let (Some(all), Json::Object(more)) = (claims.as_object_mut(), more) else { panic!("an object") };
        for (name, value) in more {
            match value {
                Json::Null => drop(all.remove(&name)),
                value => drop(all.insert(name, value)),
            }
        }
        claims
    }

    fn token(signer: &Signer, header: &Json, claims: &Json) -> String {
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        format!("{signed}.{}", encode(&signer.sign(signed.as_bytes())))
    }

    struct Provider {
        signer: Signer,
        keys: Vec<Key>,
    }

    fn provider() -> Provider {
        let signer = Signer::es256();
        let keys = keys(&json!({"keys": [signer.jwk("k1")]}));
        assert_eq!(keys.len(), 1);
        Provider { signer, keys }
    }

    impl Provider {
        fn says(&self, header: Json, more: Json, expected: &Expected<'_>) -> Result<Claims, TokenError> {
            check(&token(&self.signer, &header, &claims(more)), &self.keys, expected, NOW)
        }

        /// A bearer token with something else in its body.
        fn bears(&self, more: Json) -> Result<Claims, TokenError> {
            self.says(json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}), more, &BEARER)
        }
    }

    #[test]
    fn a_token_that_is_right_says_who_may_what() {
        let told = provider().bears(json!({"preferred_username": "Ann"})).expect("it is right");
        let expected =
            Claims { subject: "ann".to_owned(), name: Some("Ann".to_owned()), roles: vec![Role::Analyst], expires: NOW + 300 };
        assert_eq!(told, expected);
    }

    #[test]
    fn every_kind_of_signature_is_checked() {
        for signer in Signer::all() {
            let keys = keys(&json!({"keys": [signer.jwk("k1")]}));
            for name in signer.algorithms() {
                let signer = signer.by(name);
                let text = token(&signer, &json!({"alg": name, "kid": "k1"}), &claims(json!({})));
                assert!(check(&text, &keys, &BEARER, NOW).is_ok(), "{name}");
                // Another body under the same signature.
                let (signed, signature) = text.rsplit_once('.').expect("three parts");
                let (header, _) = signed.split_once('.').expect("three parts");
                let other = encode(claims(json!({"roles": ["SuperAdmin"]})).to_string().as_bytes());
                let forged = format!("{header}.{other}.{signature}");
                assert_eq!(check(&forged, &keys, &BEARER, NOW), Err(TokenError::Signature), "{name}");
            }
        }
    }

    #[test]
    fn who_has_signed_must_be_the_provider_in_a_way_that_suits_the_key() {
        let provider = provider();
        let with = |header: Json| provider.says(header, json!({}), &BEARER);
        for name in ["none", "None", "HS256", "HS512", "ES512", ""] {
            assert_eq!(with(json!({"alg": name, "kid": "k1"})), Err(TokenError::Algorithm), "{name}");
        }
        for name in ["RS256", "PS512", "ES384", "EdDSA"] {
            assert_eq!(with(json!({"alg": name, "kid": "k1"})), Err(TokenError::Unsuited), "{name}");
        }
        assert_eq!(with(json!({"alg": "ES256", "kid": "k2"})), Err(TokenError::UnknownKey));
        assert_eq!(with(json!({"alg": "ES256", "kid": "k1", "crit": ["b64"]})), Err(TokenError::Critical));
        assert!(with(json!({"alg": "ES256"})).is_ok(), "the one there is");
        assert!(matches!(with(json!({"kid": "k1"})), Err(TokenError::Unreadable(_))));
        // Somebody else's key of the same name.
        let other = token(&Signer::es256(), &json!({"alg": "ES256", "kid": "k1"}), &claims(json!({})));
        assert_eq!(check(&other, &provider.keys, &BEARER, NOW), Err(TokenError::Signature));
        // Without a signature at all.
        let whole = token(&provider.signer, &json!({"alg": "ES256", "kid": "k1"}), &claims(json!({})));
        let (signed, _) = whole.rsplit_once('.').expect("three parts");
        assert_eq!(check(&format!("{signed}."), &provider.keys, &BEARER, NOW), Err(TokenError::Signature));
        assert!(check(signed, &provider.keys, &BEARER, NOW).is_err());
    }

    #[test]
    fn keys_for_something_else_are_none() {
        let with = |more: Json| {
            let mut jwk = Signer::es256().jwk("k1");
            let (Some(all), Json::Object(more)) = (jwk.as_object_mut(), more) else { panic!("an object") };
            all.extend(more);
            keys(&json!({"keys": [jwk]})).len()
        };
        assert_eq!((with(json!({})), with(json!({"use": "sig"})), with(json!({"key_ops": ["verify"]}))), (1, 1, 1));
        for other in [
            json!({"use": "enc"}),
            json!({"key_ops": ["encrypt"]}),
            json!({"alg": "RS256"}),
            json!({"alg": "ECDH-ES"}),
            json!({"kty": "oct", "k": "c2VjcmV0"}),
            json!({"crv": "P-384"}),
            json!({"crv": "secp256k1"}),
            json!({"x": "!"}),
        ] {
            assert_eq!(with(other.clone()), 0, "{other}");
        }
        assert!(keys(&json!({})).is_empty() && keys(&json!([])).is_empty() && keys(&json!({"keys": [1, {}]})).is_empty());
    }

    #[test]
    fn whom_a_token_is_of_and_for_counts() {
        let provider = provider();
        for other in [json!("https://login.example/realms/weir/"), json!("https://evil.example"), json!(1), Json::Null] {
            assert_eq!(provider.bears(json!({"iss": other})), Err(TokenError::Issuer), "{other}");
        }
        assert!(provider.bears(json!({"aud": ["account", "weir"]})).is_ok());
        for other in
            [json!("account"), json!(["account"]), json!([]), json!({"weir": 1}), json!("Weir"), json!("weirs"), Json::Null]
        {
            assert_eq!(provider.bears(json!({"aud": other})), Err(TokenError::Audience), "{other}");
        }
        for other in [json!(""), json!(7), Json::Null] {
            assert_eq!(provider.bears(json!({"sub": other})), Err(TokenError::Lacks("whom it is about")), "{other}");
        }
    }

    #[test]
    fn tokens_hold_for_their_time_and_a_moment_around_it() {
        let provider = provider();
        let (leeway, expired) = (LEEWAY_SECONDS, Err(TokenError::Expired));
        assert!(provider.bears(json!({"exp": NOW - leeway + 1})).is_ok());
        assert_eq!(provider.bears(json!({"exp": NOW - leeway})), expired);
        assert_eq!(provider.bears(json!({"exp": 0})), expired);
        assert_eq!(provider.bears(json!({"exp": -1e300})), expired);
        assert!(provider.bears(json!({"exp": NOW as f64 + 0.5})).is_ok());
        for other in [json!("soon"), json!([]), Json::Null] {
            assert_eq!(provider.bears(json!({"exp": other})), Err(TokenError::Lacks("when it expires")), "{other}");
        }
        assert!(provider.bears(json!({"nbf": NOW + leeway})).is_ok() && provider.bears(json!({"nbf": NOW - 5})).is_ok());
        assert_eq!(provider.bears(json!({"nbf": NOW + leeway + 1})), Err(TokenError::NotYet));
        assert!(matches!(provider.bears(json!({"nbf": "now"})), Err(TokenError::Unreadable(_))));
    }

    #[test]
    fn what_is_for_something_else_does_not_let_ask() {
        let provider = provider();
        for kind in ["ID", "Refresh", "Offline", "Logout"] {
            assert!(matches!(provider.bears(json!({"typ": kind})), Err(TokenError::Kind(_))), "{kind}");
        }
        assert!(provider.bears(json!({"typ": "Bearer"})).is_ok());
        // Of a provider that writes no kind.
        for claim in ["nonce", "at_hash", "c_hash"] {
            assert!(matches!(provider.bears(json!({claim: "x"})), Err(TokenError::Kind(_))), "{claim}");
            assert!(provider.bears(json!({claim: "x", "typ": "Bearer"})).is_ok(), "{claim}");
        }
        let with = |kind: &str| provider.says(json!({"alg": "ES256", "kid": "k1", "typ": kind}), json!({}), &BEARER);
        assert!(["JWT", "jwt", "at+jwt", "application/at+jwt"].into_iter().all(|kind| with(kind).is_ok()));
        for kind in ["logout+jwt", "secevent+jwt", "dpop+jwt", ""] {
            assert!(matches!(with(kind), Err(TokenError::Kind(_))), "{kind}");
        }
    }

    #[test]
    fn a_login_ends_with_the_token_that_was_made_for_it() {
        let provider = provider();
        let ends = |more: Json| provider.says(json!({"alg": "ES256", "kid": "k1"}), more, &LOGIN);
        assert!(ends(json!({"nonce": "n-1", "typ": "ID"})).is_ok());
        assert_eq!(ends(json!({"nonce": "n-2"})), Err(TokenError::Nonce));
        assert_eq!(ends(json!({})), Err(TokenError::Nonce));
        assert_eq!(ends(json!({"nonce": "n-1", "azp": "other"})), Err(TokenError::Party));
        assert_eq!(ends(json!({"nonce": "n-1", "azp": null, "aud": ["weir", "other"]})), Err(TokenError::Party));
        assert!(ends(json!({"nonce": "n-1", "azp": "weir", "aud": ["weir", "other"]})).is_ok());
        assert!(ends(json!({"nonce": "n-1", "azp": null})).is_ok());
    }

    #[test]
    fn roles_stand_at_the_root_or_where_the_configuration_says() {
        let of = |claim: &str, value: Json| {
            let Json::Object(value) = value else { panic!("an object") };
            roles(&value, claim)
        };
        let both = [Role::Admin, Role::Billing];
        assert_eq!(of("roles", json!({"roles": ["Administrator", "Billing", "Admin", "admin", 7]})), both);
        assert_eq!(of("roles", json!({"realm_access": {"roles": ["SuperAdmin"]}})), []);
        assert_eq!(of("roles", json!({"roles": "SuperAdmin"})), []);
        assert_eq!(of("roles", json!({"roles": {"SuperAdmin": true}})), []);
        let nested = "resource_access.weir.roles";
        assert_eq!(of(nested, json!({"resource_access": {"weir": {"roles": ["Admin", "Billing"]}}})), both);
        assert_eq!(of(nested, json!({"resource_access": {"other": {"roles": ["Admin"]}}})), []);
        assert_eq!(of("https://weir.example/roles", json!({"https://weir.example/roles": ["Admin", "Billing"]})), both);
    }

    #[test]
    fn what_is_no_token_is_told_so() {
        let keys = provider().keys;
        for text in ["", ".", "..", "a.b", "a.b.c", "e30.e30.e30", "e30.e30.", "{}.{}.{}", "x", "é.é.é"] {
            assert!(matches!(check(text, &keys, &BEARER, NOW), Err(TokenError::Unreadable(_))), "{text}");
        }
        assert_eq!(check(&"a".repeat(TOKEN_BYTES_MAX + 1), &keys, &BEARER, NOW), Err(TokenError::TooLong));
    }
}
