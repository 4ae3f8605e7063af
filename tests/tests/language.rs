//! Tests of the language and its readers within this process, as one program: linking one takes long.

mod agreement;
mod fuzz;
mod fuzz_decoders;
mod id_vectors;
mod tck;
