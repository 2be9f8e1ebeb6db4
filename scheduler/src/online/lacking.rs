//! What a run lacks for its policy.

use super::{run_inputs::RunInputs, scheduling};

impl RunInputs {
    /// Writes into the manifest what the run lacks that its policy uses, and returns it, a sentence each.
    ///
    /// # Errors
    /// The settings of the policy cannot be parsed.
    pub fn note_lacking(&mut self) -> anyhow::Result<Vec<String>> {
        let lacking = policies::lacking(&scheduling(&self.manifest)?.policy, &self.engine().view())?;
        if let Some(scheduling) = &mut self.manifest.scheduling {
            scheduling.lacking.clone_from(&lacking);
        }
        Ok(lacking)
    }
}
