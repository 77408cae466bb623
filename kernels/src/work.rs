//! Flops and bytes of the operations of one step.
