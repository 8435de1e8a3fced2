//! The sandbox as a whole: environment, events, figures.
