//! Authorisation: bearer tokens, principals, and the one function that decides.
//!
//! Reading order: [`Principal`] (who), [`Action`] and [`Resource`] (what), [`authorise`] (the
//! decision), [`Authenticator`] (from a bearer token to a principal), [`ApiKeys`] (creating and
//! revoking keys), [`trail`] (what was done, and by whom).
//!
//! *Invariant:* every face, and the command line when it has a key, calls [`authorise`] before it
//! acts for a principal. No other code compares tenants or scopes.

mod authenticator;
mod authorise;
pub mod checkpoints;
mod jwt;
mod keys;
mod options;
mod principal;
mod scopes;
pub mod signing;
mod token;
pub mod trail;
mod uses;

pub use authenticator::{AuthError, Authenticator, FRESH};
pub use authorise::{Action, Denied, Resource, What, authorise};
pub use jwt::{
    ClaimNames, JwksSource, JwtKeys, JwtOptions, PublicAlgorithm, PublicIssuer, TenantFrom,
    TenantName,
};
pub use keys::{ApiKeys, Issued, KeyError, LEAST_OVERLAP, NewKey};
pub use options::{AuthOptions, BadOptions};
pub use principal::Principal;
pub use scopes::{Scope, Scopes, UnknownScope};
pub use token::{Entropy, OsEntropy, Token};
