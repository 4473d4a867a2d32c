//! Passes over neighbouring tokens: numbers in words, units, dates, commas.

use super::english::{self, NumberWord};
use super::quantity::Quantity;
use super::tokens::{Class, Token};

/// Converts numbers in words: `twenty-three`, `two hundred`.
pub(super) fn with_numbers(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    // The sum of the number words so far: whole thousands, and the rest.
    let mut open: Option<(u64, u64)> = None;
    let close = |open: &mut Option<(u64, u64)>, out: &mut Vec<Token>| {
        if let Some((thousands, rest)) = open.take() {
            out.push(Token::number(Quantity::whole(
                thousands.saturating_add(rest),
            )));
        }
    };
    for token in tokens {
        let word = (token.class == Class::Word)
            .then(|| english::number_word(&token.text))
            .flatten();
        match (word, open) {
            (Some(NumberWord::Value(value)), None) => open = Some((0, value)),
            (Some(NumberWord::Value(value)), Some((thousands, rest))) => {
                let continues =
                    (rest % 100 == 0) || (rest % 10 == 0 && rest % 100 >= 20 && value < 10);
                if !continues {
                    close(&mut open, &mut out);
                }
                open = if continues {
                    Some((thousands, rest + value))
                } else {
                    Some((0, value))
                };
            }
            (Some(NumberWord::Times(100)), Some((thousands, rest))) => {
                open = Some((thousands, rest.saturating_mul(100)))
            }
            (Some(NumberWord::Times(times)), Some((thousands, rest))) => {
                open = Some((thousands.saturating_add(rest.saturating_mul(times)), 0));
            }
            // `7.2 million`
            (Some(NumberWord::Times(times)), None) => {
                let number = out.last().and_then(|last| last.quantity.as_ref());
                match number.and_then(|number| number.times(times)) {
                    Some(quantity) => {
                        out.pop();
                        out.push(Token::number(quantity));
                    }
                    None => out.push(token),
                }
            }
            (Some(NumberWord::Ordinal(place)), None) => {
                out.push(Token::number(Quantity::ordinal(place)))
            }
            _ => {
                close(&mut open, &mut out);
                out.push(token);
            }
        }
    }
    close(&mut open, &mut out);
    out
}

/// Joins a number with the unit after it, and with groups of digits after a space.
pub(super) fn with_units(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let number = out.last().and_then(|last| last.quantity.as_ref());
        let joined = number
            .filter(|_| token.class != Class::Mark)
            .and_then(|number| {
                let continued = number.continued(&token.text);
                continued.or_else(|| number.measured_in(&token.text))
            });
        match joined {
            Some(quantity) => {
                out.pop();
                out.push(Token::number(quantity));
            }
            None => out.push(token),
        }
    }
    out
}

/// Converts a date to one token, in any order: `4 March 2026`, `March 4, 2026`.
pub(super) fn with_dates(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let quantity = |token: Option<&Token>| token.and_then(|token| token.quantity.clone());
    let mut rest = tokens.iter().peekable();
    while let Some(token) = rest.next() {
        let Some(month) = english::month(&token.text) else {
            out.push(token.clone());
            continue;
        };
        let before = quantity(out.last()).and_then(|number| number.day());
        let mut ahead = rest.clone();
        let day = before.or_else(|| quantity(ahead.next()).and_then(|number| number.day()));
        if before.is_none() && ahead.peek().is_some_and(|next| next.text == ",") {
            ahead.next();
        }
        let year = quantity(ahead.next());
        match (day, year.as_ref().and_then(Quantity::year)) {
            (Some(day), Some(year)) => {
                if before.is_some() {
                    out.pop();
                }
                out.push(Token::new(
                    Class::Identifier,
                    format!("{year}-{month:02}-{day:02}"),
                ));
                rest = ahead;
            }
            _ => out.push(token.clone()),
        }
    }
    out
}

/// `a, b, and c` is `a, b and c`.
pub(super) fn without_oxford_commas(tokens: Vec<Token>) -> Vec<Token> {
    let is_and =
        |token: Option<&Token>| token.is_some_and(|token| matches!(&*token.text, "and" | "or"));
    let kept = tokens.iter().enumerate().filter(|(at, token)| {
        !(token.class == Class::Mark && token.text == "," && is_and(tokens.get(at + 1)))
    });
    kept.map(|(_, token)| token.clone()).collect()
}
