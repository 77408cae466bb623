//! A strict double of the CUDA driver library.
