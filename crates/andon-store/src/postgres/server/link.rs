//! A connection, driven by whoever uses it.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio_postgres::Client;

use super::address::PostgresAddress;
use super::error::Fault;
use super::tls::connector;

/// How long a connection may take until it can be used.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection. It makes progress only while something is asked through it, so it needs no task of its own.
pub(crate) struct Link {
    client: Client,
    connection: Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>,
}

impl Link {
    /// Connects, under a name that the server's lists of connections show.
    pub(crate) async fn open(address: &PostgresAddress, name: &str) -> Result<Self, Fault> {
        let connector = connector(&address.trust).map_err(Fault::Tls)?;
        let mut config = address.login();
        config.application_name(name);
        let connected = tokio::time::timeout(CONNECT, config.connect(connector)).await;
        let (client, connection) = connected.map_err(|_| Fault::Silent(CONNECT))??;
        Ok(Self { client, connection: Box::pin(connection) })
    }

    /// Does something through the connection, which must answer within this time. After a fault that is not of the statement's
    /// making the link is of no use.
    pub(crate) async fn ask<T, E: From<Fault>>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, E>,
    ) -> Result<T, E> {
        let Self { client, connection } = self;
        let answered = async {
            // First, so that all that it sends is there when the connection looks for something to write.
            let work = pin!(work(client));
            match select(work, connection).await {
                Either::Left((done, _)) => done,
                Either::Right((Err(error), _)) => Err(Fault::Server(error).into()),
                // It has ended in order, which only the other side can have done.
                Either::Right((Ok(()), _)) => Err(Fault::Gone.into()),
            }
        };
        match tokio::time::timeout(patience, answered).await {
            Ok(done) => done,
            Err(_) => Err(Fault::Silent(patience).into()),
        }
    }
}

/// Lets a statement's error pass as a fault.
pub(crate) async fn attempt<T>(
    link: &mut Link,
    patience: Duration,
    work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, Fault> {
    link.ask(patience, async |client| Ok(work(client).await?)).await
}
