//! Who may do what: every permission there is, what it lets its holder do, and the roles that have it. The one place that says
//! so; `docs/security.md` has the same table, which a test holds to this one.
//!
//! A route names what it needs in the table of routes, and a query what follows from its plan (`of_query`). Does not know how it
//! is found out who asks.

use weir_model::Plan;
use weir_model::plan::Operator;

/// What a caller must be allowed to. Every route has one, whether there are logins or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Nothing: probes, the descriptions of the API, and the way in.
    Open,
    /// To be somebody, whatever the roles: pages, and what is said of weir and of oneself.
    LoggedIn,
    GraphRead,
    GraphWrite,
    SchemaWrite,
    OutsideRead,
    QueryEnd,
    IngestRead,
    IngestWrite,
    StandingRead,
    StandingWrite,
    NamespaceRead,
    NamespaceCreate,
    NamespaceDelete,
    StyleRead,
    StyleWrite,
    StatusRead,
    ConfigRead,
    UsageRead,
    BackupRead,
    SystemWrite,
}

/// What a claim of a provider can say of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    SuperAdmin,
    Admin,
    Architect,
    DataEngineer,
    Analyst,
    Billing,
}

/// A permission by its name, and the roles that have it besides `SuperAdmin`, which has all.
pub struct Right {
    pub permission: Permission,
    pub name: &'static str,
    pub about: &'static str,
    roles: &'static [Role],
}

use Permission as P;
use Role::{Admin, Analyst, Architect, Billing, DataEngineer, SuperAdmin};

const fn right(permission: Permission, name: &'static str, about: &'static str, roles: &'static [Role]) -> Right {
    Right { permission, name, about, roles }
}

#[rustfmt::skip]
pub const RIGHTS: &[Right] = &[
    right(P::GraphRead, "graph:read", "run queries that only read, follow edges, export, list the queries that run", &[Architect, DataEngineer, Analyst]),
    right(P::GraphWrite, "graph:write", "run queries that write, import, change single nodes, save walks to a file", &[Architect]),
    right(P::SchemaWrite, "schema:write", "create and drop indexes and rules of expiry", &[Architect]),
    right(P::OutsideRead, "outside:read", "in a query, read files and ask web servers (`LOAD CSV`, `loadJsonLines`, `parseProtobuf`, `toProtobuf`), and run a text at a past moment (`history.queryAt`)", &[Architect, DataEngineer]),
    right(P::QueryEnd, "query:end", "end the queries of others", &[Admin, Architect, DataEngineer]),
    right(P::IngestRead, "ingest:read", "see ingest streams", &[DataEngineer]),
    right(P::IngestWrite, "ingest:write", "create, pause and delete ingest streams, and hand records in; the query of a stream writes to the graph", &[DataEngineer]),
    right(P::StandingRead, "standing:read", "see standing queries, follow their results and taps, ask why", &[DataEngineer]),
    right(P::StandingWrite, "standing:write", "create, change and delete standing queries and outputs; an output may write to the graph", &[DataEngineer]),
    right(P::NamespaceRead, "namespace:read", "list namespaces", &[Admin, Architect, DataEngineer, Analyst]),
    right(P::NamespaceCreate, "namespace:create", "create namespaces", &[Admin, Architect, DataEngineer]),
    right(P::NamespaceDelete, "namespace:delete", "delete namespaces with everything in them", &[Admin, Architect]),
    right(P::StyleRead, "style:read", "see what the explorer offers, and how it draws nodes", &[Admin, Architect, DataEngineer, Analyst]),
    right(P::StyleWrite, "style:write", "change that, for everybody", &[Admin, Architect]),
    right(P::StatusRead, "status:read", "see the status, metrics (`/metrics` too) and what holds weir up", &[Admin, DataEngineer]),
    right(P::ConfigRead, "config:read", "see the configuration, what is stored beside the graphs, the log level; secrets are masked", &[Admin]),
    right(P::UsageRead, "usage:read", "see how much each graph has taken in", &[Admin, Billing]),
    right(P::BackupRead, "backup:read", "take a backup, which holds all graphs and all secrets that were given as text", &[Admin]),
    right(P::SystemWrite, "system:write", "shut weir down, change the log level and limits", &[Admin]),
];

impl Permission {
    /// Its name for people and programs.
    pub fn name(self) -> &'static str {
        match (self, RIGHTS.iter().find(|right| right.permission == self)) {
            (_, Some(right)) => right.name,
            (Permission::Open, None) => "open",
            (_, None) => "login",
        }
    }
}

impl Role {
    /// In the order of how much they may.
    pub const ALL: [Role; 6] = [SuperAdmin, Admin, Architect, DataEngineer, Analyst, Billing];

    /// As it is written in a claim. Anything else names no role: neither another case nor spaces around it.
    pub fn named(name: &str) -> Option<Role> {
        match name {
            // As one release of the reference service has printed it.
            "Administrator" => Some(Admin),
            _ => Role::ALL.into_iter().find(|role| role.name() == name),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SuperAdmin => "SuperAdmin",
            Admin => "Admin",
            Architect => "Architect",
            DataEngineer => "DataEngineer",
            Analyst => "Analyst",
            Billing => "Billing",
        }
    }

    pub fn has(self, permission: Permission) -> bool {
        match permission {
            Permission::Open | Permission::LoggedIn => true,
            _ if self == SuperAdmin => true,
            _ => RIGHTS.iter().any(|right| right.permission == permission && right.roles.contains(&self)),
        }
    }
}

/// What these roles may together, in the order of the table.
pub fn permissions(roles: &[Role]) -> Vec<Permission> {
    let all = RIGHTS.iter().map(|right| right.permission);
    all.filter(|permission| roles.iter().any(|role| role.has(*permission))).collect()
}

/// What somebody must be allowed to who runs a query. Texts that it brings as values are not known yet: procedures that run them
/// count as what they may do at most, and whoever has that has what such a text could need besides (a test says so).
pub fn of_query(plan: &Plan) -> Vec<Permission> {
    let facts = plan.facts;
    let writes = match plan.root {
        Operator::Schema(_) => Permission::SchemaWrite,
        _ => Permission::GraphWrite,
    };
    let needed = [
        (true, Permission::GraphRead),
        (facts.writes, writes),
        (facts.fetches, Permission::OutsideRead),
        (facts.ends, Permission::QueryEnd),
        (facts.listens, Permission::StandingRead),
    ];
    needed.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, permission)| permission).collect()
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, compile};

    use super::*;
    use crate::routes::{Method, ROUTES};

    #[test]
    fn every_permission_stands_in_the_table_once_and_some_route_or_query_needs_it() {
        let by_query = [Permission::SchemaWrite, Permission::OutsideRead];
        for (index, right) in RIGHTS.iter().enumerate() {
            let again = RIGHTS[..index].iter().any(|other| other.permission == right.permission || other.name == right.name);
            assert!(!again && !right.about.is_empty(), "{}", right.name);
            let is_needed = ROUTES.iter().any(|route| route.permission == right.permission);
            assert!(is_needed || by_query.contains(&right.permission), "nothing needs {}", right.name);
        }
        for route in ROUTES {
            let is_of_table = RIGHTS.iter().any(|right| right.permission == route.permission);
            let is_known = is_of_table || [Permission::Open, Permission::LoggedIn].contains(&route.permission);
            assert!(is_known, "{} {} needs what nobody can have", route.method, route.path);
        }
    }

    /// What is open stands here by name: a row that becomes open by mistake is found.
    #[test]
    fn only_probes_documents_and_the_way_in_are_open() {
        let open: Vec<&str> =
            ROUTES.iter().filter(|route| route.permission == Permission::Open).map(|route| route.name).collect();
        for name in &open {
            let expected = [
                "admin::liveness",
                "admin::readiness",
                "documents::openapi",
                "documents::openapi_v1",
                "documents::openapi_preview",
                "auth::log_in",
                "auth::callback",
                "auth::log_out",
            ];
            assert!(expected.contains(name), "{name} is open");
        }
        // Probes in every family, also at their older paths.
        assert_eq!(open.iter().filter(|name| **name == "admin::liveness").count(), 3);
        assert_eq!(open.iter().filter(|name| **name == "admin::readiness").count(), 3);
    }

    /// The names of handlers say what they are about; a row with the right of another group is a slip.
    #[test]
    fn rows_need_what_their_handlers_do() {
        for route in ROUTES {
            let place = format!("{} {}", route.method, route.path);
            let is_get = route.method == Method::GET;
            let permission = route.permission;
            let expected: &[Permission] = match route.name.split("::").next().unwrap_or_default() {
                "ingest" if is_get => &[P::IngestRead],
                "ingest" => &[P::IngestWrite],
                "standing" if is_get || route.name == "standing::why" => &[P::StandingRead],
                "standing" => &[P::StandingWrite],
                "namespaces" if is_get => &[P::NamespaceRead],
                "namespaces" if route.method == Method::DELETE => &[P::NamespaceDelete],
                "namespaces" => &[P::NamespaceCreate],
                "query_ui" if is_get => &[P::StyleRead],
                "query_ui" => &[P::StyleWrite],
                "debug" if is_get => &[P::GraphRead],
                "debug" => &[P::GraphWrite],
                "query" => &[P::GraphRead, P::SystemWrite],
                "gremlin" => &[P::GraphRead],
                "running" => &[P::GraphRead, P::QueryEnd],
                "algorithms" => &[P::GraphRead, P::GraphWrite],
                "transfer" => &[P::GraphRead, P::GraphWrite, P::BackupRead],
                "logs" | "shards" => &[P::ConfigRead, P::SystemWrite],
                "sockets" => &[P::GraphRead, P::StandingRead, P::IngestWrite],
                "ui" => &[P::LoggedIn, P::StandingRead],
                "documents" => &[P::Open, P::LoggedIn, P::StatusRead],
                "auth" => &[P::Open, P::LoggedIn],
                "admin" => continue,
                other => panic!("{place}: of the group {other} nobody has said what it needs"),
            };
            assert!(expected.contains(&permission), "{place} needs {permission:?}");
            if is_get && !matches!(route.name, "transfer::back_up" | "sockets::upload") {
                assert!(!permission.name().ends_with(":write"), "{place} only looks, and needs {permission:?}");
            }
        }
    }

    #[test]
    fn the_page_has_this_table() {
        let others = &Role::ALL[1..];
        let names: Vec<&str> = others.iter().map(|role| role.name()).collect();
        let mut table =
            format!("| Permission | Lets its holder | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for right in RIGHTS {
            let has: Vec<&str> = others.iter().map(|role| if role.has(right.permission) { "yes" } else { "" }).collect();
            table.push_str(&format!("| `{}` | {} | {} |\n", right.name, right.about, has.join(" | ")));
        }
        assert!(include_str!("../../../docs/security.md").contains(&table), "docs/security.md should have\n{table}");
    }

    #[test]
    fn roles_are_told_by_their_exact_names() {
        for role in Role::ALL {
            assert_eq!(Role::named(role.name()), Some(role));
        }
        assert_eq!(Role::named("Administrator"), Some(Admin));
        for other in ["", "superadmin", "SUPERADMIN", " Admin", "Admin ", "Admins", "analyst", "Root"] {
            assert_eq!(Role::named(other), None, "{other}");
        }
    }

    #[test]
    fn roles_have_what_they_are_there_for() {
        let has = |role: Role, permission: Permission| role.has(permission);
        assert_eq!(permissions(&[SuperAdmin]).len(), RIGHTS.len());
        assert_eq!(permissions(&[]), []);
        assert_eq!(permissions(&[Billing]), [P::UsageRead]);
        assert_eq!(permissions(&[Analyst]), [P::GraphRead, P::NamespaceRead, P::StyleRead]);
        assert!(has(Architect, P::GraphWrite) && has(Architect, P::SchemaWrite) && !has(Architect, P::IngestWrite));
        assert!(has(DataEngineer, P::IngestWrite) && has(DataEngineer, P::StandingWrite) && !has(DataEngineer, P::GraphWrite));
        assert!(has(Admin, P::SystemWrite) && has(Admin, P::BackupRead) && !has(Admin, P::GraphRead));
        assert!(has(Billing, P::Open) && has(Billing, P::LoggedIn));
        let both = permissions(&[Analyst, Billing]);
        assert!(both.contains(&P::GraphRead) && both.contains(&P::UsageRead));
    }

    #[test]
    fn a_query_needs_what_it_does() {
        let of = |text: &str| of_query(&compile(text, &Options::default()).expect("compiles"));
        assert_eq!(of("MATCH (n) RETURN n"), [P::GraphRead]);
        for text in [
            "CREATE (n)",
            "MATCH (n) SET n.x = 1",
            "MATCH (n) DETACH DELETE n",
            "MERGE (n:A {x: 1})",
            "MATCH (n) FOREACH (x IN [1] | SET n.x = x)",
            "MATCH (n) CALL { WITH n SET n.x = 1 RETURN 1 AS one } RETURN one",
            "MATCH (n) CALL incrementCounter(n, 'x') YIELD count RETURN count",
            "CALL cypher.doIt('RETURN 1') YIELD value RETURN value",
            "RETURN 1 AS x UNION ALL CREATE (n) RETURN 1 AS x",
        ] {
            assert_eq!(of(text), [P::GraphRead, P::GraphWrite], "{text}");
        }
        assert_eq!(of("CREATE INDEX i FOR (n:A) ON (n.x)"), [P::GraphRead, P::SchemaWrite]);
        let past = "CALL history.queryAt('RETURN 1', 1) YIELD value RETURN value";
        assert_eq!(of(past), [P::GraphRead, P::OutsideRead]);
    }

    /// A text that a query brings as a value is compiled while it runs.
    #[test]
    fn who_may_run_texts_may_do_what_they_could() {
        for role in Role::ALL {
            if role.has(P::GraphWrite) {
                assert!(role.has(P::OutsideRead) && role.has(P::SchemaWrite), "{role:?}");
            }
            if role.has(P::GraphWrite) || role.has(P::OutsideRead) {
                assert!(role.has(P::QueryEnd) && role.has(P::GraphRead), "{role:?}");
            }
        }
    }
}
