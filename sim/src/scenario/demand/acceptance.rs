//! How many drafts are accepted.

use super::super::ScenarioError;
use super::super::check::Check;
use super::super::file::AcceptanceFile;
use super::refuse_row_count;
use crate::limits::DRAFTS_MAX;
use crate::traffic::Acceptance;

/// Checks `[traffic.acceptance]`.
pub(super) fn acceptance(check: &Check<'_>, file: &AcceptanceFile) -> Result<Acceptance, ScenarioError> {
    match file {
        AcceptanceFile::Rates(list) => {
            let found = list.get_ref().len();
            if found == 0 || found > DRAFTS_MAX as usize {
                let problem = format!("expected 1 to {DRAFTS_MAX} rates, found {found}");
                return Err(check.reject(&list.span(), problem, "give one rate for each draft"));
            }
            let rates = list.get_ref().iter().map(|rate| check.real(rate, 0.0, 1.0)).collect::<Result<Vec<_>, _>>()?;
            if let Some(rise) = rates.windows(2).position(|pair| pair[1] > pair[0]) {
                let problem = format!("the rates rise from {} to {}", rates[rise], rates[rise + 1]);
                let help = "each is the probability that at least so many drafts are accepted, as vLLM reports it per \
                            position: it can only fall";
                return Err(check.reject(&list.get_ref()[rise + 1].span(), problem, help));
            }
            Ok(Acceptance::Rates(rates))
        }
        AcceptanceFile::Cycle(list) => {
            let help = "list how many drafts were accepted, one number for each verification, as in [2, 0, 3]";
            refuse_row_count(check, list.get_ref().len(), &list.span(), help)?;
            let count = |count| check.whole32(count, 0, DRAFTS_MAX);
            Ok(Acceptance::Cycle(list.get_ref().iter().map(count).collect::<Result<_, _>>()?))
        }
    }
}
