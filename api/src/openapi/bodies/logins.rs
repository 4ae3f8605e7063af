//! Logins: who asks, and what roles may.

use schemars::JsonSchema;

/// Whoever has sent the request.
#[derive(JsonSchema)]
pub struct Me {
    /// How the provider knows them.
    pub subject: String,
    /// What they are called there, if it says so.
    pub name: Option<String>,
    /// Their roles that weir knows.
    pub roles: Vec<String>,
    /// What these may, by name.
    pub permissions: Vec<String>,
}

/// A role.
#[derive(JsonSchema)]
pub struct RoleRights {
    /// Its name, as it stands in a claim of a token.
    pub name: String,
    /// What it may, by name.
    pub permissions: Vec<String>,
}
