//! The Merkle root over entries of a trail, as specified in OpenWOP v1 `auth-profiles.md`,
//! *openwop-audit-log-integrity*.

use crate::digest::Digest;

/// The root over leaves. A parent is the SHA-256 of the concatenated hex texts of its two children;
/// a node without a sibling moves up unchanged. `None` without leaves.
pub fn root(leaves: &[Digest]) -> Option<Digest> {
    let mut level = leaves.to_vec();
    while level.len() > 1 {
        let pairs = level.chunks(2);
        level = pairs
            .map(|pair| match pair {
                [left, right] => Digest::compute(format!("{left}{right}").as_bytes()),
                [single] => *single,
                _ => unreachable!("chunks of two have one or two"),
            })
            .collect();
    }
    level.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str) -> Digest {
        Digest::compute(text.as_bytes())
    }

    #[test]
    fn a_root_matches_its_definition() {
        assert_eq!(root(&[]), None);
        let [a, b, c] = ["a", "b", "c"].map(leaf);
        assert_eq!(root(&[a]), Some(a));
        let ab = leaf(&format!("{a}{b}"));
        assert_eq!(root(&[a, b]), Some(ab));
        assert_eq!(root(&[a, b, c]), Some(leaf(&format!("{ab}{c}"))));
        // Computed with `printf %s $(printf a|sha256sum|cut -c1-64)$(printf b|sha256sum|cut
        // -c1-64)|sha256sum`.
        assert_eq!(
            ab.to_string(),
            "62af5c3cb8da3e4f25061e829ebeea5c7513c54949115b1acc225930a90154da"
        );
    }
}
