//! Which checks apply to a definition, by its age.

/// Whether a definition is new to the engine.
///
/// A stored definition is never checked by the rules of registration: an earlier version accepted
/// it and its runs continue, and a stricter rule cannot take stored definitions into account. So
/// there are two kinds of fault. A *problem* leaves the definition without a meaning, such as a
/// text in place of a number or an edge to a missing node. A breach of a *rule* only rejects new
/// definitions; in a stored one, a number out of its range becomes the nearest one within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ValidationMode {
    /// It is about to be registered.
    #[default]
    New,
    /// It was registered before, perhaps by an earlier version.
    Stored,
}
