//! Ordered rewriting of a draft. Each rule is one file and says whether it changed anything; after each the draft is checked.
//!
//! The order matters where a rule feeds the next:
//!
//! | rule                 | must come before     | because                                                   |
//! |----------------------|----------------------|-----------------------------------------------------------|
//! | fold constants       | equalities to in     | a value may be written as `-1`, and an OR in brackets     |
//! |                      | single element in    | `[1]` may be a list of a literal or a literal list        |
//! | equalities to in     | place conditions     | what asks for one of several values leads to nodes        |
//! | single element in    | lower (anchors)      | `id(n) IN [e]` is found as the anchor `id(n) = e`         |
//! |                      | filters into matches | which makes such lists of what is to be no anchor         |
//! | split conditions     | labels, conditions   | they look at single conjuncts                             |
//! | filters into matches | labels, conditions   | what comes from above is placed like the others           |
//! | labels to nodes      | place conditions     | a label test is cheaper on the node than as a condition   |
//! | push into chains     | place conditions     | a condition over a whole chain is placed only if it stays |
//! | place conditions     | lower (order)        | lower weighs nodes by the conditions that lie on them     |
//! | limit sorts          | -                    | looks at operators that no other rule changes             |

mod equalities_to_in;
mod filters_into_matches;
mod fold_constants;
mod labels_to_nodes;
mod limit_sorts;
mod place_conditions;
mod push_into_chains;
mod single_element_in;
mod split_conditions;
mod validate;

use crate::bind::Draft;
use crate::error::{Code, Diagnostic, Span};
use crate::{Options, walk};

pub struct Rule {
    pub name: &'static str,
    apply: fn(&mut Draft, &Options) -> bool,
}

pub const RULES: &[Rule] = &[
    Rule { name: "fold constants", apply: fold_constants::apply },
    Rule { name: "equalities to in", apply: equalities_to_in::apply },
    Rule { name: "single element in", apply: single_element_in::apply },
    Rule { name: "split conditions", apply: split_conditions::apply },
    Rule { name: "filters into matches", apply: filters_into_matches::apply },
    Rule { name: "labels to nodes", apply: labels_to_nodes::apply },
    Rule { name: "push into chains", apply: push_into_chains::apply },
    Rule { name: "place conditions", apply: place_conditions::apply },
    Rule { name: "limit sorts", apply: limit_sorts::apply },
];

/// A rule left a draft that is not a plan: a fault of the compiler, reported as an error so that nothing runs.
pub struct Broken {
    rule: &'static str,
    problem: String,
}

impl Broken {
    pub fn diagnostic(self, text: &str) -> Diagnostic {
        let message = format!(
            "Internal error: after rule `{}` the plan is not valid: {}. Please report the query.",
            self.rule, self.problem
        );
        Diagnostic::compile(text, Span::default(), Code::Internal, message)
    }
}

/// Applies every rule once, in order. `observe` sees the draft after each rule that changed it.
pub fn rewrite(draft: &mut Draft, options: &Options, observe: &mut dyn FnMut(&'static str, &Draft)) -> Result<(), Broken> {
    check(draft, "bind")?;
    for rule in RULES {
        if (rule.apply)(draft, options) {
            check(draft, rule.name)?;
            observe(rule.name, draft);
        }
    }
    Ok(())
}

fn check(draft: &mut Draft, rule: &'static str) -> Result<(), Broken> {
    validate::validate(draft).map_err(|problem| Broken { rule, problem })
}

/// Folding alone, for expressions outside a draft; `literals` gives the values of what `fold` takes for constants.
pub use fold_constants::{fold, literals};
/// Conditions that are tested together.
pub use split_conditions::joined;

/// Every expression of the draft, wherever it lies.
fn for_each_expression(draft: &mut Draft, change: &mut dyn FnMut(&mut weir_model::Expr)) {
    walk::operators_mut(&mut draft.root, &mut |operator| {
        walk::expressions_mut(operator, &mut |expr| walk::rewrite(expr, change));
    });
}
