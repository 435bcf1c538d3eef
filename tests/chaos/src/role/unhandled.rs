//! Work of a kind that no worker handles.

use serde::{Deserialize, Serialize};

use crate::role::Work;

/// The kind.
pub(crate) const NOBODY: &str = "nobody";

/// Work that no worker handles.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct UnhandledWork(pub(crate) Work);

impl redrive::Payload for UnhandledWork {
    const KIND: &'static str = NOBODY;
}
