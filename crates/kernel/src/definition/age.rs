//! What of a definition is checked, by whether it is new.

/// Whether a definition is new to the engine.
///
/// Reading back what was stored is never checked by the rules of registration: an earlier version
/// took it, its runs go on, and whoever tightens a rule cannot know what lies in a store. So what is
/// found wrong is either a *problem*, without which the definition would have no meaning (a text
/// where a number has to be, an edge to nowhere), or a breach of a *rule*, which only a new
/// definition can be refused for. A number out of its range is then the nearest one within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Age {
    /// It is about to be registered.
    #[default]
    New,
    /// It was registered before, perhaps by an earlier version.
    Stored,
}
