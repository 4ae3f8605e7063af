//! Providers of logins, as tests need them: tokens of their users, tokens that say anything, and a browser that logs in.

use std::net::SocketAddr;

use serde_json::{Value as Json, json};

use crate::client::{self, Answer};
use crate::server::Server;
use crate::service::{Home, Weir};

/// What weir is told of itself there, and its secret, which must be in no log.
pub const CLIENT: &str = "weir";
pub const SECRET: &str = "weir-secret";

/// Of the realm: a user for each role, whose password is the name, and one who has none.
pub const USERS: [(&str, &str); 6] = [
    ("superadmin", "SuperAdmin"),
    ("administrator", "Admin"),
    ("architect", "Architect"),
    ("dataengineer", "DataEngineer"),
    ("analyst", "Analyst"),
    ("billing", "Billing"),
];

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

pub struct Provider {
    pub server: Server,
}

impl Provider {
    /// The small one.
    pub fn start(left_out: &str) -> Option<Provider> {
        Server::start("openid.sh", 1, left_out).map(|server| Provider { server })
    }

    pub fn keycloak(left_out: &str) -> Option<Provider> {
        Server::start("keycloak.sh", 1, left_out).map(|server| Provider { server })
    }

    fn address(&self) -> SocketAddr {
        self.server.address(0)
    }

    pub fn issuer(&self) -> String {
        issuer(self.server.port)
    }

    /// The answer to a request for tokens.
    pub fn grant(&self, pairs: &[(&str, &str)]) -> Answer {
        let form: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = "/realms/weir/protocol/openid-connect/token";
        client::send(self.address(), "POST", path, &[FORM], form.join("&").as_bytes()).expect("the provider answers")
    }

    /// All tokens of a user.
    pub fn tokens(&self, user: &str) -> Json {
        let of_weir = [("client_id", CLIENT), ("client_secret", SECRET), ("scope", "openid")];
        let of_user = [("grant_type", "password"), ("username", user), ("password", user)];
        self.grant(&[of_weir.as_slice(), &of_user].concat()).expect(200).json()
    }

    /// What a user asks with.
    pub fn token(&self, user: &str) -> String {
        text(&self.tokens(user)["access_token"])
    }

    /// What a program asks with.
    pub fn machine(&self) -> String {
        let pairs = [("grant_type", "client_credentials"), ("client_id", "weir-machine"), ("client_secret", "machine-secret")];
        text(&self.grant(&pairs).expect(200).json()["access_token"])
    }

    /// A token that the small one signs, whatever it says.
    pub fn signed(&self, claims: Json, lifetime: i64) -> String {
        let body = json!({"claims": claims, "lifetime": lifetime}).to_string();
        let answer = client::send(self.address(), "POST", "/test/token", &[], body.as_bytes()).expect("the provider answers");
        text(&answer.expect(200).json()["access_token"])
    }

    /// Another key takes the place of the one that it signs with.
    pub fn rotate(&self) {
        client::send(self.address(), "POST", "/test/rotate", &[], b"{}").expect("the provider answers").expect(200);
    }

    /// How often it was asked for its keys.
    pub fn asked(&self) -> u64 {
        let answer = client::send(self.address(), "GET", "/test/asked", &[], b"").expect("the provider answers");
        answer.json()["certs"].as_u64().expect("a number")
    }

    /// A request of a browser to the provider, by its whole address.
    pub fn visit(&self, method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let at = format!("http://{}", self.address());
        let path = url.strip_prefix(&at).unwrap_or_else(|| panic!("{url} is not at the provider"));
        client::send(self.address(), method, path, headers, body.as_bytes()).expect("the provider answers")
    }

    /// A weir with its logins, for browsers and tokens.
    pub fn weir(&self, home: &Home, more: &[&str]) -> Weir {
        weir_of(&self.issuer(), home, more)
    }
}

pub fn issuer(port: u16) -> String {
    format!("http://127.0.0.1:{port}/realms/weir")
}

/// A weir that has its logins from there.
pub fn weir_of(issuer: &str, home: &Home, more: &[&str]) -> Weir {
    let issuer = format!("-Dweir.auth.oidc.issuer={issuer}");
    let usual = [
        "-Dweir.store.type=in-memory",
        "-Dweir.workers=1",
        &issuer,
        "-Dweir.auth.oidc.client-id=weir",
        "-Dweir.auth.oidc.audience=weir",
    ];
    home.start_with(&[("WEIR_AUTH_OIDC_CLIENT_SECRET", SECRET)], &[usual.as_slice(), more].concat())
}

pub fn text(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// The header that a token stands in.
pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// What is sent back of the cookies that an answer sets.
pub fn cookies(answer: &Answer) -> String {
    let set = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
    let pairs: Vec<&str> = set.filter_map(|(_, value)| value.split(';').next()).filter(|pair| !pair.ends_with('=')).collect();
    pairs.join("; ")
}

/// The path of an address at weir.
pub fn path_at<'u>(weir: &Weir, url: &'u str) -> &'u str {
    let at = format!("http://{}", weir.address());
    url.strip_prefix(&at).unwrap_or_else(|| panic!("{url} is not at {at}"))
}

/// Where an answer leads.
pub fn location(answer: &Answer) -> String {
    let answer = answer.clone().expect(302);
    answer.header("location").unwrap_or_else(|| panic!("it leads nowhere: {}", answer.shown())).to_owned()
}
