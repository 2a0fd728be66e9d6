//! Readers who wait for the next change: what they get is decided by what they may read when it
//! happens, not by what they might have read when they began.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use partita_engine::{DataAction, RoleScope};
use partita_executor::Trust;
use partita_gateway::auth::{Key, Keys};
use partita_gateway::{Door, Response};
use tokio::runtime::Builder;

use crate::access::{Scene, WRONG};
use crate::support::{Answer, Ask, World};

const DOCS: &str = "/dbs/d/colls/c/docs";

fn feed(world: &World) -> Ask<'_> {
    world.get(DOCS).header("a-im", "Incremental Feed")
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// Polls once: it must not be over.
async fn still_waits(waiting: &mut Waiting<'_>) {
    let polled = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
    assert!(polled.await, "it should wait");
}

/// Waits at the end of the feed, is woken by an item, and before it looks something else happens:
/// the answer.
fn woken<'w>(
    world: &'w World,
    authorize: impl FnOnce(Ask<'w>) -> Ask<'w>,
    happens: impl FnOnce(),
) -> Answer {
    let end = feed(world).header("if-none-match", "*").expect(304);
    let end = end.header("etag").unwrap();
    let ask = feed(world).header("if-none-match", end).header("prefer", "wait=60");
    let request = authorize(ask).request();
    Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        let mut waiting: Waiting<'_> = Box::pin(world.door().handle(request).response());
        still_waits(&mut waiting).await;
        // The pool has one thread for feeds: once this is answered the first look is over, too.
        feed(world).expect(200);
        still_waits(&mut waiting).await;
        let item = world.post(DOCS, r#"{"id":"secret","pk":"a"}"#).key(r#"["a"]"#);
        assert!(item.header("x-ms-documentdb-is-upsert", "True").send().status < 300);
        // The bell has rung, but who waits has not heard it yet.
        happens();
        Answer::of(waiting.await)
    })
}

#[track_caller]
fn refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(!answer.text().contains("secret"), "{}", answer.text());
}

fn roles(scene: &Scene) {
    scene.trust(&[(RoleScope::Account, &DataAction::ALL)]);
}

#[test]
fn a_good_credential_gets_the_change() {
    let scene = Scene::new();
    roles(&scene);
    let (token, alice) = (scene.token("r", "dbs/d/colls/c", ""), scene.alice());
    let by_key = woken(&scene.world, |ask| ask, || {});
    let by_token = woken(&scene.world, |ask| ask.token(&token), || {});
    let by_role = woken(&scene.world, |ask| ask.bearing(&alice), || {});
    for answer in [by_key, by_token, by_role] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("secret"), "{}", answer.text());
    }
}

#[test]
fn a_resource_token_that_ends_meanwhile_gets_nothing() {
    let scene = Scene::new();
    let token = scene.token("r", "dbs/d/colls/c", "");
    let ends = || scene.world.clock.advance_millis(10_000);
    refused(&woken(&scene.world, |ask| ask.token(&token), ends), 403);
}

#[test]
fn a_permission_or_a_user_that_is_deleted_meanwhile_gets_nothing() {
    for deleted in ["/dbs/d/users/r/permissions/p", "/dbs/d/users/r"] {
        let scene = Scene::new();
        let token = scene.token("r", "dbs/d/colls/c", "");
        let delete = || drop(scene.world.delete(deleted).expect(204));
        refused(&woken(&scene.world, |ask| ask.token(&token), delete), 403);
    }
}

#[test]
fn a_key_that_is_taken_away_meanwhile_opens_nothing_nor_do_its_tokens() {
    let scene = Scene::new();
    let token = scene.token("r", "dbs/d/colls/c", "");
    let rotate = || {
        let keys = Keys { primary: Some(Key::parse(WRONG).unwrap()), ..Keys::default() };
        scene.world.credentials.replace(Trust::of_keys(keys));
    };
    refused(&woken(&scene.world, |ask| ask, rotate), 401);
    scene.trust(&[]);
    refused(&woken(&scene.world, |ask| ask.token(&token), rotate), 401);
}

#[test]
fn a_bearer_whose_token_ends_or_whose_role_is_taken_away_gets_nothing() {
    let scene = Scene::new();
    roles(&scene);
    let alice = scene.alice();
    let withdraw = || scene.trust(&[]);
    refused(&woken(&scene.world, |ask| ask.bearing(&alice), withdraw), 403);
    roles(&scene);
    // An hour, and as far as clocks may be apart.
    let ends = || scene.world.clock.advance_millis(3_900_000);
    refused(&woken(&scene.world, |ask| ask.bearing(&alice), ends), 401);
}

#[test]
fn a_signature_does_not_grow_old_by_waiting() {
    let scene = Scene::new();
    scene.world.clock.advance_millis(890_000);
    let wait = || scene.world.clock.advance_millis(30_000);
    let answer = woken(&scene.world, |ask| ask, wait);
    assert!(answer.status == 200 && answer.text().contains("secret"), "{}", answer.text());
}
