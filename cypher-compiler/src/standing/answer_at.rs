//! The answer of a standing query at one moment, as an ad-hoc query that compares as the mode does.

use weir_model::Plan;

use super::{StandingMode, compile_standing};
use crate::error::Diagnostic;
use crate::lower::orders::{self, Lists};
use crate::{Options, compile, walk};

/// The two older modes compare properties by type and value, and have rules of their own for what is absent; so theirs is the
/// maintained plan, with orders in which its pattern can be visited in place of the paths along which it is maintained.
pub fn compile_asked(text: &str, mode: StandingMode, options: &Options) -> Result<Plan, Vec<Diagnostic>> {
    if mode == StandingMode::AnyQuery {
        return compile(text, options);
    }
    let mut plan = compile_standing(text, mode, options)?.plan;
    walk::operators_mut(&mut plan.root, &mut |operator| {
        walk::patterns_mut(operator, &mut |pattern| {
            pattern.delta.clear();
            orders::order(pattern, Lists::AreTested);
        });
    });
    Ok(plan)
}
