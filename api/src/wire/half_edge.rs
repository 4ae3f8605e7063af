//! One half of an edge as it travels: what a node knows of an edge at it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use weir_model::{IdScheme, NodeId};

use super::decode::{Fields, Mistakes};

/// An edge as seen from one of its nodes.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"edgeType": "KNOWS", "direction": "Outgoing", "other": "00000000-0000-0000-0000-000000000001"}]))]
pub struct HalfEdge {
    /// The type of the edge.
    pub edge_type: String,
    /// The direction of the edge, seen from this node.
    pub direction: EdgeDirection,
    /// The id of the node at the other end.
    #[schemars(with = "String")]
    pub other: NodeId,
}

/// The direction of an edge, seen from one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "HalfEdgeDirection")]
pub enum EdgeDirection {
    /// From this node to the other.
    Outgoing,
    /// From the other node to this one.
    Incoming,
    /// Never answered, and refused when an edge is written: every edge has a direction.
    Undirected,
}

impl EdgeDirection {
    const ALL: [EdgeDirection; 3] = [EdgeDirection::Outgoing, EdgeDirection::Incoming, EdgeDirection::Undirected];

    fn name(self) -> &'static str {
        match self {
            EdgeDirection::Outgoing => "Outgoing",
            EdgeDirection::Incoming => "Incoming",
            EdgeDirection::Undirected => "Undirected",
        }
    }

    /// Of a query parameter: in any case, and shortened.
    pub fn parse(text: &str) -> Option<EdgeDirection> {
        match text.to_ascii_lowercase().as_str() {
            "out" => Some(EdgeDirection::Outgoing),
            "in" => Some(EdgeDirection::Incoming),
            lower => Self::ALL.into_iter().find(|direction| direction.name().eq_ignore_ascii_case(lower)),
        }
    }
}

impl HalfEdge {
    pub fn to_json(&self, ids: IdScheme) -> Json {
        json!({"edgeType": self.edge_type, "direction": self.direction.name(), "other": ids.text(self.other)})
    }

    /// `body` is a list of them.
    pub fn decode_list(body: &Json, path: &str, ids: IdScheme, mistakes: &mut Mistakes) -> Option<Vec<HalfEdge>> {
        let Json::Array(items) = body else {
            mistakes.at(path, format!("Got value '{body}' with wrong type, expecting array"));
            return None;
        };
        let each = |(index, item)| HalfEdge::decode(item, &format!("{path}[{index}]"), ids, mistakes);
        items.iter().enumerate().map(each).collect()
    }

    fn decode(value: &Json, path: &str, ids: IdScheme, mistakes: &mut Mistakes) -> Option<HalfEdge> {
        let fields = Fields::of(value, path, mistakes)?;
        let edge_type = fields.required_text("edgeType", mistakes);
        fields.required("direction", mistakes)?;
        let word = fields.any_word("direction", &EdgeDirection::ALL.map(EdgeDirection::name), mistakes);
        let other = fields.required_text("other", mistakes)?;
        let Some(other) = ids.parse(&other) else {
            mistakes.at(&fields.path_of("other"), format!("'{other}' is no node id"));
            return None;
        };
        let direction = word.and_then(EdgeDirection::parse)?;
        if direction == EdgeDirection::Undirected {
            mistakes.at(&fields.path_of("direction"), "every edge of weir has a direction: Outgoing or Incoming");
            return None;
        }
        Some(HalfEdge { edge_type: edge_type?, direction, other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_edges_are_read_and_written() {
        let ids = IdScheme::Long { consecutive: false };
        let read = |body: Json| {
            let mut mistakes = Mistakes::default();
            let edges = HalfEdge::decode_list(&body, "", ids, &mut mistakes);
            mistakes.or(edges)
        };
        let edges = read(json!([{"edgeType": "R", "direction": "Outgoing", "other": "7"}])).expect("is read");
        assert_eq!(edges[0].to_json(ids), json!({"edgeType": "R", "direction": "Outgoing", "other": "7"}));
        let tagged = read(json!([{"edgeType": "R", "direction": {"type": "Incoming"}, "other": "7"}])).expect("is read");
        assert_eq!(tagged[0].direction, EdgeDirection::Incoming);
        assert_eq!(
            read(json!([{"edgeType": "R", "direction": "Up", "other": "7"}])),
            Err(vec![
                "DecodingFailure at [0].direction: Invalid value: Up ; valid values are: Outgoing, Incoming, Undirected"
                    .to_owned()
            ])
        );
        assert!(read(json!([{"edgeType": "R", "direction": "Undirected", "other": "7"}])).is_err());
        assert_eq!(EdgeDirection::parse("OUT"), Some(EdgeDirection::Outgoing));
    }
}
