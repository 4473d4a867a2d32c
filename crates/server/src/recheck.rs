//! Re-authorisation of a caller during a long response.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use runtime::access::{Action, Principal, Resource, What, authorise};
use tokio::time::Instant;

use crate::app::App;
use crate::problem::Problem;
use crate::route::Cx;
use crate::session;

/// The credential of a long response. A key may be revoked or expire, and a token's scopes may
/// change, while its client still listens.
pub(crate) struct CredentialRecheck {
    app: App,
    headers: HeaderMap,
    who: Arc<Principal>,
    action: Action,
    /// The time of the next check.
    pub(crate) due: Instant,
}

impl CredentialRecheck {
    pub(crate) fn new(cx: &Cx, action: Action) -> Result<Self, Problem> {
        let headers = session::of_session(&cx.headers).unwrap_or_else(|| {
            let given = cx.headers.get_all(AUTHORIZATION).iter();
            given.map(|value| (AUTHORIZATION, value.clone())).collect()
        });
        Ok(Self {
            due: Instant::now() + cx.app.limits().recheck,
            app: cx.app.clone(),
            headers,
            who: cx.who()?,
            action,
        })
    }

    /// Checks the credential if it is due.
    pub(crate) async fn check(&mut self) -> Result<(), Problem> {
        if Instant::now() < self.due {
            return Ok(());
        }
        // A session ends by itself, also one whose key stays valid.
        let mut headers = self.headers.clone();
        session::admit(&self.app, &mut headers)?;
        let who = self.app.caller(&headers).await?;
        self.due = Instant::now() + self.app.limits().recheck;
        let own = Resource::own(&who, who.run.clone().map_or(What::Runs, What::Run));
        let reach = |who: &Principal| (who.tenant.clone(), who.workspace.clone(), who.run.clone());
        let is_same = reach(&who) == reach(&self.who);
        match authorise(&who, self.action, &own) {
            Ok(()) if is_same => Ok(()),
            _ => Err(Problem::scope(self.action.scope().as_str())),
        }
    }
}
