use anyhow::Result;
use crate::dice::Dice;
use crate::report::Report;
pub(crate) async fn run(_report: &mut Report, _by_agent: bool, _dice: &mut Dice) -> Result<()> {
    Ok(())
}
