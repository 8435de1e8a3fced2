//! Sessions of ours that are made when they are first named, as some services do.

use sandshell_client::types::{ErrorCode, SessionId, SessionRecord, SessionRequest};
use sandshell_client::{Client, ClientError};

/// Whether a call failed only for want of its session, which has been made: then it is to be tried again.
pub(crate) async fn made(
    sandbox: &Client,
    id: &SessionId,
    failure: Option<&ClientError>,
) -> Result<bool, ClientError> {
    match failure {
        Some(error) if error.code() == Some(ErrorCode::SessionEnded) => {
            // It is in the way of the next.
            sandbox.delete_session(id).await?;
        }
        Some(error) if is_missing(error) => {}
        _ => return Ok(false),
    }
    let request = SessionRequest {
        id: Some(id.clone()),
        ..SessionRequest::default()
    };
    match sandbox.create_session(&request).await {
        Ok(_) => Ok(true),
        // Somebody else made it meanwhile.
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The record of a session, which is made if it is not there.
pub(crate) async fn record(sandbox: &Client, id: &SessionId) -> Result<SessionRecord, ClientError> {
    let record = sandbox.session(id).await;
    if made(sandbox, id, record.as_ref().err()).await? {
        return sandbox.session(id).await;
    }
    record
}

pub(crate) fn is_missing(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::SessionNotFound | ErrorCode::SessionEnded)
    )
}
