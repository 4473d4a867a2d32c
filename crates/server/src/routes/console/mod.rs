//! The console: pages for people, over the public API alone.
//!
//! The source is in the folder `console` of the checkout; its bundle is embedded here. A browser
//! signs in with a key or token, which becomes a sealed cookie. The cookie counts only together
//! with the session's secret in a header of the request, which pages of other origins cannot know.

mod assets;
mod offline;
mod session;

pub(crate) use assets::is_asset;
pub use offline::offline_page;
pub(crate) use session::schemas;

use crate::route::Route;

/// Its pages, and the routes of sessions.
pub(crate) fn routes() -> Vec<Route> {
    [assets::routes(), session::routes()].concat()
}
