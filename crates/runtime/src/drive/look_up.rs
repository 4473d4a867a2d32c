//! Which definition a node wants to run as a child.

use std::time::Duration;

use kernel::run::NodeError;

use super::{Driver, Stop};

impl Driver {
    pub(super) async fn look_up(
        &self,
        workflow: Option<String>,
    ) -> Result<kernel::run::Found, Stop> {
        let not = |code: &str, message: String| {
            kernel::run::Found::Not(NodeError::new(code, message).fatal())
        };
        let Some(workflow) = workflow else {
            return Ok(not(
                "invalid_config",
                "config.workflowId names no workflow".into(),
            ));
        };
        let tenant = self.run().header.tenant().clone();
        let mut wait = Duration::from_millis(10);
        loop {
            match self.engine.door().usable_workflow(&tenant, &workflow).await {
                Ok(named) => {
                    return Ok(match named {
                        Some(definition) => kernel::run::Found::Definition(definition),
                        None => not(
                            "workflow_not_found",
                            format!("there is no workflow {workflow}; put it into the store first"),
                        ),
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the registry cannot be read");
                    self.pause(&mut wait).await?;
                }
            }
        }
    }
}
