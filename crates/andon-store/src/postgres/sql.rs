//! Statements and their values.
//!
//! Each statement names the types of its values, and none is prepared under a name: a pooler may give every transaction another
//! connection.

use futures_util::future::join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

/// A value of a statement, or an array of them.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    MaybeText(Option<&'a str>),
    Int(i64),
    MaybeInt(Option<i64>),
    Texts(Vec<&'a str>),
    MaybeTexts(Vec<Option<&'a str>>),
    Ints(Vec<i64>),
    MaybeInts(Vec<Option<i64>>),
    Bools(Vec<bool>),
}

impl Value<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(value) => (value, Type::TEXT),
            Self::MaybeText(value) => (value, Type::TEXT),
            Self::Int(value) => (value, Type::INT8),
            Self::MaybeInt(value) => (value, Type::INT8),
            Self::Texts(values) => (values, Type::TEXT_ARRAY),
            Self::MaybeTexts(values) => (values, Type::TEXT_ARRAY),
            Self::Ints(values) => (values, Type::INT8_ARRAY),
            Self::MaybeInts(values) => (values, Type::INT8_ARRAY),
            Self::Bools(values) => (values, Type::BOOL_ARRAY),
        }
    }
}

fn typed<'a>(values: &'a [Value<'_>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(Value::typed).collect()
}

/// A transaction that is open on a connection.
#[derive(Clone, Copy)]
pub(super) struct Transaction<'a> {
    client: &'a Client,
    /// The id of this journal as the owner of runs.
    pub(super) owner: &'a str,
}

impl<'a> Transaction<'a> {
    pub(super) fn on(client: &'a Client, owner: &'a str) -> Self {
        Self { client, owner }
    }

    /// The rows that a query returns.
    pub(super) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        self.client.query_typed(sql, &typed(values)).await
    }

    /// The first row that a query returns.
    pub(super) async fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// How many rows a statement has changed.
    pub(super) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        self.client.execute_typed(sql, &typed(values)).await
    }
}

/// A statement with its values.
pub(super) struct Statement<'a> {
    pub(super) sql: String,
    pub(super) values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(sql: impl Into<String>, values: Vec<Value<'a>>) -> Self {
        Self { sql: sql.into(), values }
    }
}

/// Sends a whole transaction in one write, and returns the rows of each of its statements.
pub(super) async fn transact(
    client: &Client,
    begin: &str,
    statements: &[Statement<'_>],
) -> Result<Vec<Vec<Row>>, Error> {
    let begun = client.batch_execute(begin);
    let done = join_all(
        statements.iter().map(async |Statement { sql, values }| client.query_typed(sql, &typed(values)).await),
    );
    let ended = client.batch_execute("COMMIT");
    // All three are sent before an answer is awaited. If a statement fails, the server ignores those after it and rolls back.
    let (begun, (done, ended)) = futures_util::future::join(begun, futures_util::future::join(done, ended)).await;
    begun?;
    let rows = done.into_iter().collect::<Result<_, _>>()?;
    ended?;
    Ok(rows)
}
