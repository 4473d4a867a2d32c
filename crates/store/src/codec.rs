//! How content lies in a row: one byte says the codec, one the key it is sealed with.
