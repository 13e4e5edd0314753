//! An issuer's tokens: valid ones are accepted, forged ones are not.

use andon_server::Oidc;

use crate::common::*;
use crate::house::{Answered, answered};
use crate::issuer::{LocalIssuer, Signer, b64, hashed, now};

async fn house(oidc: Oidc) -> House {
    let options = Options::new().oidc(oidc).head_time(Duration::from_secs(60));
    House::build(Arc::new(MemoryJournal::new()), options, agent(std::iter::repeat_with(endless).take(9))).await
}

async fn show(house: &House, token: &str) -> Answered {
    answered(house.request(Method::GET, "/v1/runs").bearer_auth(token).send().await.unwrap()).await
}

/// An issuer with a key of each kind, and a server that accepts its tokens.
struct World {
    issuer: LocalIssuer,
    house: House,
    rsa: Signer,
    p256: Signer,
    p384: Signer,
    ed: Signer,
}

impl World {
    async fn new() -> Self {
        let (rsa, p256, p384, ed) = (Signer::rsa(), Signer::p256(), Signer::p384(), Signer::ed());
        let mut for_rs256 = rsa.jwk("rs256-only");
        for_rs256["alg"] = "RS256".into();
        let mut to_encrypt = rsa.jwk("to-encrypt");
        to_encrypt["use"] = "enc".into();
        let secret = json!({"kty": "oct", "k": b64("secret"), "kid": "secret"});
        let odd = json!({"kty": "EC", "crv": "secp256k1", "x": b64([1; 32]), "y": b64([2; 32]), "kid": "odd"});
        let keys = vec![
            rsa.jwk("rsa"),
            p256.jwk("p256"),
            p384.jwk("p384"),
            ed.jwk("ed"),
            for_rs256,
            to_encrypt,
            secret,
            odd,
            json!("nonsense"),
        ];
        let issuer = LocalIssuer::with(keys).await;
        let house = house(Oidc::new(&issuer.url, "andon").unwrap()).await;
        Self { issuer, house, rsa, p256, p384, ed }
    }

    fn signed(&self, alg: &str, kid: &str, claims: &Value) -> String {
        let signer = match alg {
            "ES256" => &self.p256,
            "ES384" => &self.p384,
            "EdDSA" => &self.ed,
            _ => &self.rsa,
        };
        signer.token(json!({"alg": alg, "kid": kid, "typ": "JWT"}), claims)
    }
}

#[tokio::test]
async fn a_good_token_opens_whatever_kind_its_key_is_and_acts_for_its_subject() {
    let world = World::new().await;
    let claims = world.issuer.claims();
    let kinds = [
        ("RS256", "rsa"),
        ("RS384", "rsa"),
        ("RS512", "rsa"),
        ("PS256", "rsa"),
        ("PS384", "rsa"),
        ("PS512", "rsa"),
        ("ES256", "p256"),
        ("ES384", "p384"),
        ("EdDSA", "ed"),
        ("RS256", "rs256-only"),
    ];
    for (alg, kid) in kinds {
        let token = world.signed(alg, kid, &claims);
        for time in ["first", "second"] {
            assert_eq!(show(&world.house, &token).await.0, StatusCode::OK, "{alg} {kid} the {time} time");
        }
    }
    let listed = world.signed("RS256", "rsa", &world.issuer.claims_but("aud", json!(["other", "andon"])));
    assert_eq!(show(&world.house, &listed).await.0, StatusCode::OK);
    let nameless = world.ed.token(json!({"alg": "EdDSA"}), &claims);
    assert_eq!(show(&world.house, &nameless).await.0, StatusCode::OK);
    let token = world.signed("ES256", "p256", &claims);
    let post = |body| world.house.request(Method::POST, "/v1/runs").bearer_auth(&token).json(&body).send();
    let (status, run) = answered(post(json!({"app": "shop", "input": "Go."})).await.unwrap()).await;
    assert_eq!((status, &run["user"]), (StatusCode::CREATED, &json!("ada")), "{run}");
    let (status, _) = answered(post(json!({"app": "shop", "input": "Go.", "user": "bob"})).await.unwrap()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let cancel = format!("/v1/runs/{}/cancel", run["run_id"].as_str().unwrap());
    let response = world.house.request(Method::POST, &cancel).bearer_auth(&token).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN, "it has no scope for that");
    assert_eq!(world.issuer.asked(), 1, "the issuer was asked once for all of them");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a list of forgeries")]
async fn a_forged_token_opens_nothing_whatever_kind_of_forgery_it_is() {
    let world = World::new().await;
    let (claims, rsa) = (world.issuer.claims(), &world.rsa);
    let good = world.signed("RS256", "rsa", &claims);
    // The server fetches the keys first, so that nothing below is refused only because a key is missing.
    assert_eq!(show(&world.house, &good).await.0, StatusCode::OK);
    let parts: Vec<&str> = good.split('.').collect();
    let (der, pem) = rsa.public();
    let attacker = Signer::rsa();
    let trap = LocalIssuer::with(vec![attacker.jwk("rsa"), attacker.jwk("mine")]).await;
    let head = |more: Value| {
        let mut head = json!({"alg": "RS256", "kid": "rsa"});
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        head
    };
    let unsigned = |alg: &str| format!("{}.{}.", b64(head(json!({"alg": alg})).to_string()), parts[1]);
    let with = |name: &str, value: Value| world.signed("RS256", "rsa", &world.issuer.claims_but(name, value));
    let admin = world.issuer.claims_but("scope", json!("admin"));
    let forged = [
        ("no algorithm", unsigned("none")),
        ("no algorithm, in capitals", unsigned("None")),
        ("no algorithm, in all capitals", unsigned("NONE")),
        ("no algorithm, with the signature of another", format!("{}{}", unsigned("nOnE"), parts[2])),
        ("the public key as a secret, as PEM", hashed(&head(json!({"alg": "HS256"})), &claims, pem.as_bytes())),
        (
            "the public key as a secret, as PEM in a line",
            hashed(&head(json!({"alg": "HS256"})), &claims, pem.trim().as_bytes()),
        ),
        ("the public key as a secret, as DER", hashed(&head(json!({"alg": "HS256"})), &claims, &der)),
        ("the public key as a secret, said to be RS256", hashed(&head(json!({})), &claims, pem.as_bytes())),
        ("a secret that is published", hashed(&json!({"alg": "HS256", "kid": "secret"}), &claims, b"secret")),
        ("an empty secret", hashed(&json!({"alg": "HS256", "kid": "rsa"}), &claims, b"")),
        ("another audience", with("aud", json!("other"))),
        ("other audiences", with("aud", json!(["other", "andon.example"]))),
        ("no audience", with("aud", Value::Null)),
        ("another issuer", with("iss", json!(trap.url))),
        ("issuers", with("iss", json!([world.issuer.url, "x"]))),
        ("no issuer", with("iss", Value::Null)),
        ("over", with("exp", json!(now() - 1))),
        ("not yet", with("nbf", json!(now() + 120))),
        ("no end", with("exp", Value::Null)),
        ("an expiry that is not a number", with("exp", json!("tomorrow"))),
        ("an unknown key", rsa.token(head(json!({"kid": "unknown"})), &claims)),
        ("the name of another key", rsa.token(head(json!({"kid": "p256"})), &claims)),
        ("the name of another key, signed by a third", attacker.token(head(json!({})), &claims)),
        ("a key of another kind", world.p256.token(json!({"alg": "RS256", "kid": "p256"}), &claims)),
        ("a key for another curve", world.p256.token(json!({"alg": "ES384", "kid": "p384"}), &claims)),
        ("a signature that the key is not for", rsa.token(head(json!({"alg": "PS256", "kid": "rs256-only"})), &claims)),
        ("a key that is for encryption", rsa.token(head(json!({"kid": "to-encrypt"})), &claims)),
        ("a curve that is not taken", world.p256.token(json!({"alg": "ES256K", "kid": "odd"}), &claims)),
        ("claims that were changed", format!("{}.{}.{}", parts[0], b64(admin.to_string()), parts[2])),
        (
            "a head that was changed",
            format!("{}.{}.{}", b64(head(json!({"typ": "at+jwt"})).to_string()), parts[1], parts[2]),
        ),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("no signature and no dot", format!("{}.{}", parts[0], parts[1])),
        ("a part too many", format!("{good}.x")),
        ("half a signature", format!("{}.{}.{}", parts[0], parts[1], &parts[2][..100])),
        ("its own key", attacker.token(head(json!({"jwk": attacker.jwk("rsa")})), &claims)),
        (
            "an address of keys",
            attacker.token(head(json!({"jku": format!("{}/keys", trap.url), "kid": "mine"})), &claims),
        ),
        ("an address of certificates", attacker.token(head(json!({"x5u": format!("{}/keys", trap.url)})), &claims)),
        ("a certificate", attacker.token(head(json!({"x5c": [b64(attacker.public().0)]})), &claims)),
        ("something that must be understood", rsa.token(head(json!({"crit": ["exp"]})), &claims)),
        ("a name that is not text", rsa.token(head(json!({"kid": ["rsa"]})), &claims)),
        ("a subject that is not an id", with("sub", json!("a/b"))),
        ("no subject", with("sub", Value::Null)),
        ("no token", "x".to_owned()),
        ("dots", "..".to_owned()),
    ];
    // The request id is different each time.
    let told = async |response| {
        let (status, mut told) = answered(response).await;
        told.as_object_mut().unwrap().remove("request_id");
        (status, told)
    };
    let (_, refusal) = told(world.house.request(Method::GET, "/v1/runs").send().await.unwrap()).await;
    for (what, token) in forged {
        let response = world.house.request(Method::GET, "/v1/runs").bearer_auth(token).send().await.unwrap();
        assert_eq!(
            response.headers().get("www-authenticate").map(|value| value.as_bytes()),
            Some(&b"Bearer"[..]),
            "{what}"
        );
        assert_eq!(told(response).await, (StatusCode::UNAUTHORIZED, refusal.clone()), "{what}");
    }
    assert_eq!(trap.asked(), 0, "whoever forges tokens is asked for nothing");
    assert_eq!(show(&world.house, &good).await.0, StatusCode::OK);
}

#[tokio::test]
async fn unknown_keys_do_not_make_the_server_ask_the_issuer_without_end() {
    let world = World::new().await;
    let claims = world.issuer.claims();
    for n in 0..50 {
        let token = world.rsa.token(json!({"alg": "RS256", "kid": format!("k{n}")}), &claims);
        assert_eq!(show(&world.house, &token).await.0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(world.issuer.asked(), 1);
}

#[tokio::test]
async fn a_key_that_the_issuer_takes_into_use_is_found_and_one_that_it_withdraws_is_forgotten() {
    let world = World::new().await;
    let claims = world.issuer.claims();
    let old = world.signed("ES256", "p256", &claims);
    assert_eq!(show(&world.house, &old).await.0, StatusCode::OK);
    let next = Signer::p256();
    *world.issuer.keys.lock() = json!({"keys": [next.jwk("next")]});
    let new = next.token(json!({"alg": "ES256", "kid": "next"}), &claims);
    assert_eq!(show(&world.house, &new).await.0, StatusCode::UNAUTHORIZED, "the issuer was asked a moment ago");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(show(&world.house, &new).await.0, StatusCode::OK);
    assert_eq!(show(&world.house, &old).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_missing_or_wrong_issuer_is_reported_and_opens_nothing() {
    let ed = Signer::ed();
    let other = LocalIssuer::with(vec![ed.jwk("ed")]).await;
    let gone = "http://127.0.0.1:9/".to_owned();
    for issuer in [gone, format!("{}/", other.url)] {
        let house = house(Oidc::new(&issuer, "andon").unwrap()).await;
        let claims = other.claims_but("iss", json!(issuer));
        let token = ed.token(json!({"alg": "EdDSA", "kid": "ed"}), &claims);
        let (status, problem) = show(&house, &token).await;
        assert_eq!(
            (status, &problem["type"]),
            (StatusCode::SERVICE_UNAVAILABLE, &json!("urn:andon:issuer-unavailable"))
        );
    }
}

#[tokio::test]
async fn a_tenant_is_what_the_claim_says_that_was_named_for_it() {
    let ed = Signer::ed();
    let issuer = LocalIssuer::with(vec![ed.jwk("ed")]).await;
    let oidc = Oidc::new(&issuer.url, "andon").unwrap().jwks(format!("{}/keys", issuer.url)).unwrap();
    let house = house(oidc.tenant_claim("org")).await;
    let token = |org: Value| ed.token(json!({"alg": "EdDSA", "kid": "ed"}), &issuer.claims_but("org", org));
    let (north, south) = (token(json!("north")), token(json!("south")));
    let post =
        house.request(Method::POST, "/v1/runs").bearer_auth(&north).json(&json!({"app": "shop", "input": "Go."}));
    assert_eq!(post.send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(show(&house, &north).await.1["runs"].as_array().unwrap().len(), 1);
    assert_eq!(show(&house, &south).await.1["runs"].as_array().unwrap().len(), 0);
    for none in [Value::Null, json!(""), json!(["north"])] {
        assert_eq!(show(&house, &token(none)).await.0, StatusCode::UNAUTHORIZED);
    }
}
