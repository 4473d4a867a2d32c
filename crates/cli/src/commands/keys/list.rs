//! `runwright keys list`.

use runtime::access::ApiKeys;

use super::{Whose, described, option, short};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    whose: Whose,
}

/// Lists keys.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let tenant = &args.whose.tenant;
    let first = format!("create one with `runwright keys create{}`", option(tenant));
    if !session.may_have_store() {
        let data = session.place.data.display();
        let what = format!("no store in {data}, so no key exists");
        let hint = format!("{first}, and the store; or name another folder with --data");
        return Err(Failure::new(what).hint(hint));
    }
    let door = session.read()?;
    let keys = ApiKeys::new(door.clone()).list(tenant).await?;
    let now = door.store().now();
    let mut data = Data::new();
    if session.form == Form::Json {
        for key in &keys {
            let mut shown = described(&key.id, &key.grant);
            shown["status"] = key.standing(now).as_str().into();
            shown["createdAt"] = key.created_at.to_string().into();
            shown["revokedAt"] = key.revoked_at.map(|at| at.to_string()).into();
            shown["revokeReason"] = key.revoke_reason.as_deref().into();
            shown["replaces"] = key.replaces.as_ref().map(|id| id.as_str()).into();
            shown["successor"] = key.successor.as_ref().map(|id| id.as_str()).into();
            data.json_line(&shown)?;
        }
        data.done()?;
        return Ok(Exit::Done);
    }
    if keys.is_empty() {
        talk::say(format!("no key yet; {first}"));
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "KEY",
        "STATUS",
        "PRINCIPAL",
        "WORKSPACE",
        "MADE",
        "EXPIRES",
        "SCOPES",
        "GROUPS, ROLES",
        "NAME",
    ]);
    for key in &keys {
        let grant = &key.grant;
        let optional = |text: &Option<String>| text.as_deref().map(|text| text::one_line(text, 30));
        let memberships = grant.groups.iter().chain(&grant.roles);
        let memberships: Vec<&str> = memberships.map(String::as_str).collect();
        let scopes: Vec<&str> = grant.scopes.iter().map(String::as_str).collect();
        table.row([
            style::strong(short(&key.id)),
            match &key.revoke_reason {
                Some(reason) => format!("revoked: {}", text::one_line(reason, 40)),
                None => key.standing(now).as_str().to_owned(),
            },
            if grant.principal == key.id.as_str() {
                "the key".to_owned()
            } else {
                text::one_line(&grant.principal, 30)
            },
            optional(&grant.workspace).unwrap_or_else(|| "all".into()),
            text::ago(key.created_at, now),
            match grant.expires_at {
                Some(at) if at > now => format!("in {}", text::ms(at.ms_since(now))),
                Some(at) => text::ago(at, now),
                None => "never".into(),
            },
            text::one_line(&scopes.join(","), 60),
            text::one_line(&memberships.join(","), 40),
            optional(&grant.name).unwrap_or_default(),
        ]);
    }
    table.lines().try_for_each(|line| data.line(line))?;
    data.done()?;
    Ok(Exit::Done)
}
