//! Code contexts and what a run gives.
