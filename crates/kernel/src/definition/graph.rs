//! Read-only queries on a plan's graph.

use super::plan::{NodeIx, Plan};

impl Plan {
    /// The nodes in layers: each layer follows all layers that lead to it, back edges aside.
    pub fn layers(&self) -> Vec<Vec<NodeIx>> {
        let mut layer = vec![0; self.nodes.len()];
        let mut waiting: Vec<usize> = self
            .nodes
            .iter()
            .map(|node| {
                node.incoming
                    .iter()
                    .filter(|&&e| !self.edge(e).back)
                    .count()
            })
            .collect();
        let mut ready: Vec<NodeIx> = self
            .node_ixs()
            .filter(|ix| waiting[ix.index()] == 0)
            .collect();
        while let Some(ix) = ready.pop() {
            for &edge in &self.node(ix).outgoing {
                let edge = self.edge(edge);
                if edge.back {
                    continue;
                }
                let target = edge.target.index();
                layer[target] = layer[target].max(layer[ix.index()] + 1);
                waiting[target] -= 1;
                if waiting[target] == 0 {
                    ready.push(edge.target);
                }
            }
        }
        let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |max| max + 1)];
        for ix in self.node_ixs() {
            layers[layer[ix.index()]].push(ix);
        }
        layers
    }
}
