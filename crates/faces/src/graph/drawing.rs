//! A picture as positions and paths, for pages that paint it themselves.

use kernel::definition::Plan;
use serde_json::{Value, json};

use super::layout::Rect;
use super::picture::Picture;
use super::svg::{Drawn, drawn, kind_class, lay_out};

/// The drawing of a plan.
pub(super) fn draw(plan: &Plan, picture: &Picture) -> Value {
    let layout = lay_out(picture);
    let nodes = picture.nodes.iter().zip(&layout.nodes).map(|(node, rect)| {
        let mut drawn = json!({
            "id": node.id,
            "name": node.name,
            "typeId": node.type_id,
            "kind": kind_class(node.kind),
            "disabled": node.disabled,
        });
        place(&mut drawn, *rect);
        drawn
    });
    let edges = picture
        .edges
        .iter()
        .zip(&layout.routes)
        .map(|(edge, route)| {
            let Drawn { path, tip } = drawn(route, layout.direction);
            json!({
                "source": picture.nodes[edge.source].id,
                "target": picture.nodes[edge.target].id,
                "label": edge.label,
                "labelX": tenth(route.label.x),
                "labelY": tenth(route.label.y),
                "path": path,
                "tip": tip,
                "onFailure": edge.on_failure,
                "closesLoop": edge.back,
            })
        });
    let loops = picture.loops.iter().zip(&layout.groups).map(|(one, rect)| {
        let mut drawn = json!({ "name": one.name, "maxRounds": one.max_rounds });
        place(&mut drawn, *rect);
        drawn
    });
    json!({
        "workflowId": plan.workflow,
        "version": plan.version,
        "name": picture.title,
        "width": tenth(layout.width),
        "height": tenth(layout.height),
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "loops": loops.collect::<Vec<_>>(),
    })
}

fn place(drawn: &mut Value, rect: Rect) {
    drawn["x"] = json!(tenth(rect.x));
    drawn["y"] = json!(tenth(rect.y));
    drawn["width"] = json!(tenth(rect.w));
    drawn["height"] = json!(tenth(rect.h));
}

/// A length with one digit after the point.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}
