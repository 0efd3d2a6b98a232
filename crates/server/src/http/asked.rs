//! What a request's path and query say, understood; what cannot be is a [`Problem`], as every error over HTTP is.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A part of the path.
pub(crate) struct Path<T>(pub(crate) T);

/// What stands behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let part = AxumPath::from_request_parts(parts, state).await;
        part.map(|AxumPath(part)| Self(part))
            .map_err(|rejection: PathRejection| Problem::bad(&rejection.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = AxumQuery::from_request_parts(parts, state).await;
        query
            .map(|AxumQuery(query)| Self(query))
            .map_err(|rejection: QueryRejection| Problem::bad(&rejection.body_text()))
    }
}
