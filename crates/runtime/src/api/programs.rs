//! Programs in definitions that tenants register.

use kernel::definition::{NodeKind, Plan};
use kernel::ids::TenantId;
use kernel::problem::{Problems, pointer};
use kernel::stream::PutBy;

use super::{Api, ApiError};
use crate::tools::TenantTools;

impl Api {
    /// Rejects a definition that runs programs it may not run.
    pub(super) fn check_programs(
        &self,
        tenant: &TenantId,
        put_by: PutBy,
        plan: &Plan,
    ) -> Result<(), ApiError> {
        if put_by == PutBy::Operator {
            return Ok(());
        }
        let tools = TenantTools::new(self.engine.models().tools(), tenant);
        let nodes = self.door().plans().nodes();
        let mut problems = Problems::new();
        for (at, node) in plan.nodes.iter().enumerate() {
            let work = match node.kind {
                NodeKind::Work => nodes.get(&node.type_id),
                _ => None,
            };
            let Some(work) = work else {
                continue;
            };
            if work.runs_programs(&node.config, &tools) {
                self.engine.programs().check(tenant, put_by)?;
            }
            for problem in work.check_of_tenant(&node.config) {
                let path = format!(
                    "{}{}",
                    pointer("/nodes", at.to_string()),
                    pointer("", "config")
                );
                problems.add(
                    format!("{path}{}", problem.path),
                    problem.code,
                    problem.message,
                );
            }
        }
        problems.or(()).map_err(|problems| ApiError::Invalid {
            what: "workflow",
            problems,
        })
    }
}
