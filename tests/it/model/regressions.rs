//! Sequences that once failed, in their shortest form.
