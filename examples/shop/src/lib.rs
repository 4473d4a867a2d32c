//! A very small shop: its orders, and their totals.
//!
//! Money is in cents, so that sums are exact.

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub number: u32,
    /// The ordered item.
    pub item: &'static str,
    /// The number of pieces.
    pub pieces: u32,
    /// The price of one piece, in cents.
    pub cents: u32,
}

/// Today's orders.
pub const ORDERS: [Order; 4] = [
    Order {
        number: 1,
        item: "tea",
        pieces: 2,
        cents: 450,
    },
    Order {
        number: 2,
        item: "cups",
        pieces: 6,
        cents: 320,
    },
    Order {
        number: 3,
        item: "tea",
        pieces: 1,
        cents: 450,
    },
    Order {
        number: 4,
        item: "kettle",
        pieces: 1,
        cents: 3900,
    },
];

/// The total of an order, in cents.
pub fn total(order: &Order) -> u32 {
    order.pieces * order.cents
}

/// The orders as JSON.
pub fn orders_json(orders: &[Order]) -> String {
    let order = |order: &Order| {
        format!(
            r#"{{"number":{},"item":"{}","pieces":{},"cents":{}}}"#,
            order.number,
            order.item,
            order.pieces,
            total(order)
        )
    };
    let orders: Vec<String> = orders.iter().map(order).collect();
    format!("[{}]", orders.join(","))
}

/// The stock of each item, as JSON.
pub fn stock_json() -> &'static str {
    r#"{"tea":3,"cups":0,"kettle":12}"#
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_costs_pieces_times_price() {
        assert_eq!(total(&ORDERS[1]), 1920);
    }

    #[test]
    fn orders_are_a_json_list() {
        let json = orders_json(&ORDERS[..1]);
        assert_eq!(
            json,
            r#"[{"number":1,"item":"tea","pieces":2,"cents":900}]"#
        );
        assert_eq!(orders_json(&[]), "[]");
    }
}
