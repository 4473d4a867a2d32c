//! The shapes of tokens of existing services: one row each, with its documentation.
//!
//! To add a service add a row: the prefix of its tokens, their alphabet, their length, and the
//! source. Everything else (the boundaries of a token, and whether it looks random) is common to
//! all rows and is in [`shapes`](super::shapes).

/// The characters of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `0-9a-f`, in either case.
    Hex,
    /// Capitals and digits.
    Upper,
    /// Small letters and digits.
    Lower,
    /// Letters and digits.
    Alnum,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-`.
    Dash,
    /// The same and `.`.
    Dots,
    /// Those of base64.
    Base64,
    /// Those of both kinds of base64, and `.`.
    Padded,
}

use Alphabet::{Alnum, Base64, Dash, Dots, Hex, Lower, Padded, Upper, Word};

/// A service whose tokens are a prefix and some characters.
pub(super) struct Service {
    /// The prefixes, separated by `|`.
    pub(super) prefixes: &'static str,
    /// The characters after the prefix.
    pub(super) alphabet: Alphabet,
    /// The fewest characters after the prefix.
    pub(super) least: usize,
    pub(super) most: usize,
}

const fn of(
    _name_and_source: (&str, &str),
    prefixes: &'static str,
    alphabet: Alphabet,
    least: usize,
    most: usize,
) -> Service {
    Service {
        prefixes,
        alphabet,
        least,
        most,
    }
}

/// The bound for services that document none.
const ANY: usize = 4096;

/// Tokens that are a prefix and some characters.
#[rustfmt::skip]
pub(super) const SERVICES: &[Service] = &[
    // Ours.
    of(("Runwright", "docs/reference/access.md"), "rw_", Word, 89, 89),
    // Code and packages.
    of(("GitHub", "docs.github.com, token formats"), "ghp_|gho_|ghu_|ghs_|ghr_", Alnum, 30, 255),
    of(("GitHub, fine-grained", "docs.github.com, token formats"), "github_pat_", Word, 30, 255),
    of(("GitLab", "docs.gitlab.com, token overview"), "glpat-|gloas-|gldt-|glrt-|glrtr-|glcbt-|glptt-|glft-|glimt-|glagent-|glwt-|glsoat-|glffct-", Dots, 20, 300),
    of(("Bitbucket", "support.atlassian.com, app passwords"), "ATBB|ATCTT3", Dash, 28, 250),
    of(("Atlassian", "support.atlassian.com, API tokens"), "ATATT3|ATOA", Padded, 60, 300),
    of(("npm", "npm docs, access tokens"), "npm_", Alnum, 36, 36),
    of(("PyPI", "PyPI help, API tokens"), "pypi-", Dash, 50, ANY),
    of(("RubyGems", "RubyGems guides, API key"), "rubygems_", Hex, 48, 48),
    of(("Cargo", "doc.rust-lang.org/cargo, publishing"), "cio", Alnum, 32, 32),
    of(("NuGet", "learn.microsoft.com, NuGet API keys"), "oy2", Lower, 43, 43),
    of(("Clojars", "github.com/clojars, deploy tokens"), "CLOJARS_", Lower, 60, 60),
    of(("Packagist", "packagist.com/docs, API tokens"), "packagist_uut_|packagist_ort_|packagist_out_", Hex, 60, 80),
    of(("Docker Hub", "docs.docker.com, access tokens"), "dckr_pat_|dckr_oat_", Dash, 27, 40),
    of(("JFrog", "jfrog.com, access tokens"), "AKCp", Alnum, 69, 69),
    of(("JFrog reference", "jfrog.com, access tokens"), "cmVmdGtu", Alnum, 56, 56),
    of(("SonarQube", "docs.sonarsource.com, tokens"), "squ_|sqp_|sqa_", Hex, 40, 40),
    of(("Sourcegraph", "sourcegraph.com/docs, access tokens"), "sgp_", Word, 40, 80),
    of(("Sourcegraph licence", "sourcegraph.com/docs, access tokens"), "slk_", Hex, 64, 64),
    of(("Buildkite", "buildkite.com/docs, API tokens"), "bkua_|bkct_|bkaj_", Alnum, 40, 90),
    of(("CircleCI", "circleci.com/docs, API tokens"), "CCIPAT_|CCIPRJ_", Word, 60, 90),
    of(("Harness", "developer.harness.io, API keys"), "pat.|sat.", Dots, 66, 90),
    of(("Octopus Deploy", "octopus.com/docs, API keys"), "API-", Upper, 26, 40),
    of(("Jenkins", "jenkins.io/doc, API tokens"), "11", Hex, 32, 32),
    of(("Deno Deploy", "docs.deno.com, access tokens"), "ddp_|ddw_|ddo_", Alnum, 36, 40),
    of(("ReadMe", "docs.readme.com, API keys"), "rdme_", Lower, 70, 70),
    of(("Postman", "learning.postman.com, API keys"), "PMAK-", Dash, 59, 60),
    // Clouds and hosting.
    of(("OpenWOP credential reference", "openwop.dev, RFC 0046"), "cred_", Dash, 16, ANY),
    of(("AWS", "docs.aws.amazon.com, unique identifiers"), "AKIA|ASIA|ABIA|ACCA", Upper, 16, 16),
    of(("AWS Bedrock", "docs.aws.amazon.com, Bedrock API keys"), "ABSK", Base64, 100, 160),
    of(("Google API key", "cloud.google.com/docs, API keys"), "AIza", Dash, 35, ANY),
    of(("Google OAuth secret", "developers.google.com/identity"), "GOCSPX-", Dash, 24, 40),
    of(("Google OAuth token", "developers.google.com/identity"), "ya29.", Dots, 20, ANY),
    of(("Google refresh token", "developers.google.com/identity"), "1//0", Dash, 40, 200),
    of(("Alibaba Cloud", "alibabacloud.com/help, AccessKey"), "LTAI", Alnum, 12, 24),
    of(("Tencent Cloud", "cloud.tencent.com/document, API keys"), "AKID", Alnum, 32, 36),
    of(("Yandex Cloud", "yandex.cloud/docs, API keys"), "AQVN|t1.9eu", Dots, 35, 260),
    of(("DigitalOcean", "docs.digitalocean.com, tokens"), "dop_v1_|doo_v1_|dor_v1_", Hex, 64, 64),
    of(("Heroku", "devcenter.heroku.com, authorizations"), "HRKU-", Dash, 36, 70),
    of(("Cloudflare", "developers.cloudflare.com, API tokens"), "cfut_|cfat_|cfk_", Dash, 40, 60),
    of(("Cloudflare origin", "developers.cloudflare.com, origin CA"), "v1.0-", Dash, 171, 171),
    of(("Fly.io", "fly.io/docs, tokens"), "fm1r_|fm1a_|fm2_|fo1_", Padded, 40, ANY),
    of(("Vercel", "vercel.com/docs, tokens"), "vcp_|vci_|vca_|vcr_|vck_", Alnum, 24, 80),
    of(("Vercel Blob", "vercel.com/docs, Vercel Blob"), "vercel_blob_rw_", Word, 40, 80),
    of(("Netlify", "docs.netlify.com, access tokens"), "nfp_", Alnum, 36, 60),
    of(("Render", "render.com/docs, API keys"), "rnd_", Alnum, 24, 40),
    of(("Scalingo", "developers.scalingo.com, tokens"), "tk-us-", Dash, 48, 48),
    of(("Pulumi", "pulumi.com/docs, access tokens"), "pul-", Hex, 40, 40),
    of(("Terraform Cloud", "developer.hashicorp.com, API tokens"), "atlasv1.", Dash, 60, 70),
    of(("Vault", "developer.hashicorp.com/vault, tokens"), "hvs.|hvb.|hvr.", Dash, 24, 300),
    of(("Doppler", "docs.doppler.com, tokens"), "dp.pt.|dp.st.|dp.ct.|dp.sa.|dp.scim.|dp.audit.", Dots, 40, 80),
    of(("1Password", "developer.1password.com, service accounts"), "ops_eyJ", Padded, 200, ANY),
    of(("age", "age-encryption.org"), "AGE-SECRET-KEY-1", Upper, 58, 58),
    of(("Tailscale", "tailscale.com/kb, key prefixes"), "tskey-auth-|tskey-api-|tskey-client-|tskey-scim-|tskey-webhook-", Dash, 20, 80),
    of(("Infisical", "infisical.com/docs, service tokens"), "st.", Dots, 60, 120),
    // Data.
    of(("Supabase", "supabase.com/docs, API keys"), "sbp_|sb_secret_", Dash, 30, 60),
    of(("PlanetScale", "planetscale.com/docs, service tokens"), "pscale_tkn_|pscale_pw_|pscale_oauth_", Dots, 32, 64),
    of(("Neon", "neon.tech/docs, API keys"), "napi_", Lower, 40, 80),
    of(("Databricks", "docs.databricks.com, access tokens"), "dapi", Dash, 32, 34),
    of(("Aiven", "aiven.io/docs, service passwords"), "AVNS_", Dash, 19, 30),
    of(("CockroachDB", "cockroachlabs.com/docs, API access"), "CCDB1_", Word, 63, 63),
    of(("MongoDB Atlas", "mongodb.com/docs/atlas, service accounts"), "mdb_sa_sk_", Dash, 40, 40),
    of(("Xata", "xata.io/docs, API keys"), "xau_", Alnum, 36, 60),
    of(("Airtable", "airtable.com/developers, tokens"), "pat", Dots, 79, 79),
    of(("Pinecone", "docs.pinecone.io, API keys"), "pcsk_", Word, 50, 90),
    of(("dbt", "docs.getdbt.com, service tokens"), "dbtc_|dbtu_", Dash, 32, 80),
    of(("Prefect", "docs.prefect.io, API keys"), "pnu_|pnb_", Alnum, 36, 36),
    // Models.
    of(("OpenAI, Anthropic, OpenRouter, DeepSeek", "platform.openai.com/docs; docs.anthropic.com"), "sk-", Dash, 20, ANY),
    of(("Hugging Face", "huggingface.co/docs, tokens"), "hf_|api_org_", Alnum, 30, 60),
    of(("Groq", "console.groq.com/docs"), "gsk_", Alnum, 30, 60),
    of(("Replicate", "replicate.com/docs, API tokens"), "r8_", Alnum, 37, 40),
    of(("Perplexity", "docs.perplexity.ai"), "pplx-", Alnum, 40, 60),
    of(("xAI", "docs.x.ai"), "xai-", Alnum, 60, 100),
    of(("Fireworks", "docs.fireworks.ai"), "fw_", Alnum, 22, 40),
    of(("Together", "docs.together.ai"), "tgp_v1_", Dash, 40, 60),
    of(("Cerebras", "inference-docs.cerebras.ai"), "csk-", Lower, 40, 60),
    of(("ElevenLabs", "elevenlabs.io/docs"), "sk_", Hex, 48, 48),
    of(("Voyage", "docs.voyageai.com"), "pa-", Dash, 43, 43),
    of(("LangSmith", "docs.smith.langchain.com"), "lsv2_pt_|lsv2_sk_", Word, 43, 60),
    of(("Tavily", "docs.tavily.com"), "tvly-", Dash, 20, 60),
    of(("Firecrawl", "docs.firecrawl.dev"), "fc-", Hex, 32, 32),
    of(("E2B", "e2b.dev/docs"), "e2b_", Hex, 40, 40),
    of(("RunPod", "docs.runpod.io"), "rpa_", Alnum, 40, 60),
    of(("NVIDIA", "docs.nvidia.com, NGC"), "nvapi-", Dash, 60, 80),
    of(("Jina", "jina.ai"), "jina_", Word, 50, 80),
    of(("Apify", "docs.apify.com"), "apify_api_", Alnum, 30, 50),
    of(("Weights & Biases", "docs.wandb.ai"), "wandb_v1_", Word, 60, 100),
    of(("Modal", "modal.com/docs"), "ak-|as-", Alnum, 22, 22),
    // Monitoring.
    of(("New Relic", "docs.newrelic.com, API keys"), "NRAK-|NRJS-|NRII-|NRRA-|NRIQ-", Dash, 19, 64),
    of(("Grafana", "grafana.com/docs, service accounts"), "glc_|glsa_", Padded, 30, 400),
    of(("Sentry", "docs.sentry.io, auth tokens"), "sntrys_|sntryu_|sntrya_|sntryi_", Padded, 60, 400),
    of(("Dynatrace", "docs.dynatrace.com, token format"), "dt0c01.|dt0s01.|dt0s16.", Dots, 80, 100),
    of(("PostHog", "posthog.com/docs, personal API keys"), "phx_|phs_", Alnum, 40, 60),
    of(("Honeycomb", "docs.honeycomb.io, API keys"), "hcaik_|hcalk_|hcxik_|hcbik_", Alnum, 58, 64),
    of(("Axiom", "axiom.co/docs, tokens"), "xaat-|xapt-", Dash, 36, 36),
    of(("Logfire", "logfire.pydantic.dev"), "pylf_v1_", Word, 40, 60),
    of(("Segment", "segment.com/docs, public API"), "sgp_", Alnum, 64, 64),
    // Messaging.
    of(("Slack", "api.slack.com, token types"), "xoxb-|xoxp-|xoxa-|xoxo-|xoxr-|xoxs-|xoxe-|xoxc-|xoxd-|xoxe.xoxb-|xoxe.xoxp-|xapp-", Padded, 10, 300),
    of(("Mailgun", "documentation.mailgun.com, API keys"), "key-", Hex, 32, 32),
    of(("Mandrill", "mailchimp.com/developer/transactional"), "md-", Dash, 22, 22),
    of(("Brevo", "developers.brevo.com"), "xkeysib-|xsmtpsib-", Dash, 81, 81),
    of(("Resend", "resend.com/docs"), "re_", Word, 30, 40),
    of(("MailerSend", "developers.mailersend.com"), "mlsn.", Hex, 64, 70),
    of(("Twilio", "twilio.com/docs, API keys"), "SK", Hex, 32, 32),
    of(("Typeform", "typeform.com/developers"), "tfp_", Dots, 40, 70),
    of(("HubSpot", "developers.hubspot.com, private apps"), "pat-na1-|pat-na2-|pat-eu1-|pat-ap1-", Dash, 36, 36),
    of(("Twitch", "dev.twitch.tv, IRC"), "oauth:", Lower, 30, 30),
    of(("Facebook", "developers.facebook.com, access tokens"), "EAA", Alnum, 60, ANY),
    of(("Instagram", "developers.facebook.com, access tokens"), "IGQ|IGAA", Dash, 80, ANY),
    of(("LinkedIn", "learn.microsoft.com/linkedin"), "WPL_AP1.", Padded, 24, 40),
    // Payment and shops.
    of(("Stripe", "docs.stripe.com/keys"), "sk_live_|sk_test_|rk_live_|rk_test_|whsec_", Padded, 16, 260),
    of(("Square", "developer.squareup.com, access tokens"), "sq0atp-|sq0csp-|sq0idp-", Dash, 22, 60),
    of(("Square, new", "developer.squareup.com, access tokens"), "EAAA", Dash, 60, 60),
    of(("Shopify", "shopify.dev, access tokens"), "shpat_|shpca_|shppa_|shpss_|shpua_|shptka_|shpit_", Hex, 32, 40),
    of(("Flutterwave", "developer.flutterwave.com"), "FLWSECK-|FLWSECK_TEST-", Dash, 32, 40),
    of(("EasyPost", "docs.easypost.com"), "EZAK|EZTK", Alnum, 54, 54),
    of(("Shippo", "docs.goshippo.com"), "shippo_live_|shippo_test_", Hex, 40, 40),
    of(("Duffel", "duffel.com/docs"), "duffel_live_|duffel_test_", Dash, 43, 43),
    of(("GoCardless, Mollie, Lob", "developer.gocardless.com; docs.mollie.com; docs.lob.com"), "live_", Dash, 30, 48),
    // Documents and design.
    of(("Notion", "developers.notion.com"), "ntn_|secret_", Alnum, 43, 50),
    of(("Linear", "linear.app/developers"), "lin_api_|lin_oauth_", Alnum, 40, 64),
    of(("Figma", "figma.com/developers"), "figd_|figo_|figor_|figoh_|figdr_", Dash, 32, 60),
    of(("Contentful", "contentful.com/developers"), "CFPAT-", Dash, 43, 43),
    of(("Sanity", "sanity.io/docs"), "sk", Alnum, 80, 200),
    of(("Dropbox", "dropbox.com/developers"), "sl.", Dots, 100, ANY),
    of(("Frame.io", "developer.frame.io"), "fio-u-", Dash, 64, 64),
    of(("Mapbox", "docs.mapbox.com, access tokens"), "sk.eyJ|tk.eyJ", Dots, 60, ANY),
    of(("LaunchDarkly", "docs.launchdarkly.com"), "sdk-|mob-", Dash, 36, 36),
    of(("Intercom", "developers.intercom.com"), "dG9rO", Padded, 50, 100),
    of(("Ory", "ory.sh/docs"), "ory_pat_|ory_at_|ory_st_", Dash, 32, 100),
    of(("Stytch", "stytch.com/docs"), "secret-live-|secret-test-", Padded, 36, 60),
    // More, by their documentation.
    of(("Adafruit", "learn.adafruit.com"), "aio_", Alnum, 28, 28),
    of(("Infracost", "infracost.io/docs"), "ico-", Alnum, 32, 32),
    of(("42", "api.intra.42.fr"), "s-s4t2ud-|s-s4t2af-|u-s4t2ud-", Hex, 64, 64),
    of(("Razorpay", "razorpay.com/docs"), "rzp_live_|rzp_test_", Alnum, 14, 30),
    of(("Google, new", "ai.google.dev, API keys"), "AQ.", Dash, 45, 80),
    of(("Confluent", "docs.confluent.io, API keys"), "cflt", Base64, 60, 60),
    of(("OpenShift", "docs.openshift.com, tokens"), "sha256~", Dash, 43, 43),
    of(("SettleMint", "console.settlemint.com"), "sm_aat_|sm_pat_|sm_sat_", Alnum, 16, 40),
    of(("Defined Networking", "docs.defined.net"), "dnkey-", Dash, 60, 90),
    of(("ClickHouse Cloud", "clickhouse.com/docs"), "4b1d", Alnum, 38, 38),
    of(("Authress", "authress.io/knowledge-base"), "sc_|ext_|scauth_|authress_", Dots, 60, ANY),
    of(("Trello", "developer.atlassian.com"), "ATTA", Hex, 64, 80),
    of(("ClickUp", "developer.clickup.com"), "pk_", Word, 40, 60),
    of(("AppVeyor", "appveyor.com/docs"), "v2.", Lower, 20, 20),
    of(("Backblaze", "backblaze.com/docs"), "K001|K002|K003|K004|K005", Base64, 27, 27),
    of(("UpCloud", "developers.upcloud.com"), "ucat_", Alnum, 20, 60),
    of(("Paddle", "developer.paddle.com"), "pdl_live_apikey_|pdl_sdbx_apikey_", Word, 40, 70),
    of(("Polar", "docs.polar.sh"), "polar_oat_|polar_pat_|polar_whs_", Alnum, 30, 60),
    of(("OneSignal", "documentation.onesignal.com"), "os_v2_app_|os_v2_org_", Lower, 80, 130),
    of(("Klaviyo", "developers.klaviyo.com"), "pk_", Hex, 34, 34),
    of(("Telnyx", "developers.telnyx.com"), "KEY01", Word, 50, 60),
    of(("Statsig", "docs.statsig.com"), "secret-", Alnum, 40, 50),
    of(("Rootly", "rootly.com/api"), "rootly_", Hex, 64, 64),
    of(("Gitpod", "gitpod.io/docs"), "gitpod_pat_", Dots, 40, 200),
    of(("Socket", "docs.socket.dev"), "sktsec_", Dash, 30, 80),
    of(("Snyk", "docs.snyk.io"), "snyk_uat.|snyk_sat.", Dots, 40, 300),
    of(("Trigger.dev", "trigger.dev/docs"), "tr_dev_|tr_prod_|tr_stg_|tr_pat_", Alnum, 20, 60),
    of(("Inngest", "inngest.com/docs"), "signkey-prod-|signkey-test-|signkey-branch-", Alnum, 32, 80),
    of(("QStash", "upstash.com/docs"), "sig_", Alnum, 28, 40),
    of(("Browserbase", "docs.browserbase.com"), "bb_live_", Dash, 20, 40),
    of(("Brave", "api-dashboard.search.brave.com"), "BSA", Dash, 24, 40),
    of(("Kaggle", "kaggle.com/docs"), "KGAT_", Hex, 32, 40),
    of(("Turbopuffer", "turbopuffer.com/docs"), "tpuf_", Alnum, 30, 60),
    of(("Tinybird", "tinybird.co/docs"), "p.eyJ", Dots, 60, ANY),
    of(("Materialize", "materialize.com/docs"), "mzp_", Hex, 64, 64),
    of(("Dub", "dub.co/docs"), "dub_", Alnum, 24, 40),
    of(("Svix, Standard Webhooks", "standardwebhooks.com"), "whsk_|testsk_", Base64, 24, 90),
    of(("Novita, Lambda", "docs.lambdalabs.com"), "secret_", Word, 40, 100),
    of(("Checkly", "checklyhq.com/docs"), "cu_", Hex, 32, 32),
    of(("Cursor", "docs.cursor.com"), "key_", Hex, 64, 64),
    of(("Convex", "docs.convex.dev"), "prod:", Padded, 60, 200),
    of(("WorkOS", "workos.com/docs"), "sk_", Alnum, 50, 120),
    of(("Nightfall, Expo", "docs.expo.dev"), "expo_", Dash, 38, 60),
    of(("DingTalk", "open.dingtalk.com"), "SEC", Hex, 64, 64),
    of(("Weights & Biases, local", "docs.wandb.ai"), "local-", Hex, 40, 40),
    of(("Retool", "docs.retool.com"), "retool_", Alnum, 20, 60),
    of(("StackHawk", "docs.stackhawk.com"), "hawk.", Dots, 36, 60),
    of(("Gitea, Forgejo", "docs.gitea.com"), "gta_|gto_|gtr_", Alnum, 40, 60),
    of(("Mixedbread, Morph", "mixedbread.com/docs"), "emb_|mxb_", Alnum, 32, 64),
    of(("Anyscale", "docs.anyscale.com"), "esecret_|aph0_", Alnum, 24, 80),
];

/// Tokens with a structure, each as a pattern; the group, if there is one, is the secret.
#[rustfmt::skip]
pub(super) const STRUCTURED: &[(&str, &str)] = &[
    // A JSON Web Token (RFC 7519): header and payload are objects, whose base64 begins alike.
    ("JWT", r"\beyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]*"),
    // SendGrid (docs.sendgrid.com): an id and a secret.
    ("SendGrid", r"\bSG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,64}"),
    // Mailchimp (mailchimp.com/developer): a key and its data centre.
    ("Mailchimp", r"\b[0-9a-f]{32}-us[0-9]{1,2}"),
    // Telegram (core.telegram.org/bots): the number of a bot and its key.
    ("Telegram", r"(?:\b|bot)([0-9]{8,10}:AA[A-Za-z0-9_\-]{32,35})"),
    // Discord (discord.com/developers): the base64 of a number, a time, a signature.
    ("Discord", r"\b[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}"),
    // Asana (developers.asana.com).
    ("Asana", r"\b[12]/[0-9]{13,17}(?:/[0-9]{13,17})?:[0-9a-f]{32}\b"),
    // Azure (learn.microsoft.com): secrets of applications, keys of storage accounts.
    ("Azure application", r"[0-9]Q~[A-Za-z0-9_~.\-]{31,34}"),
    ("Azure storage", r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,86}={1,2})"),
    // 1Password (support.1password.com): the secret key of an account.
    ("1Password", r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}\b"),
    // Braintree and Plaid.
    ("Braintree", r"\baccess_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}\b"),
    ("Plaid", r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    // Salesforce (help.salesforce.com): the id of an organisation and a session.
    ("Salesforce", r"\b00D[A-Za-z0-9]{12,15}![A-Za-z0-9._]{80,120}"),
    // New Relic (docs.newrelic.com): licence keys.
    ("New Relic", r"\b[0-9a-f]{36}NRAL\b"),
    // MaxMind (dev.maxmind.com): licence keys.
    ("MaxMind", r"_([A-Za-z0-9]{29}_mmk)\b"),
    // Signatures in addresses, which grant access to what they sign (learn.microsoft.com;
    // docs.aws.amazon.com).
    ("Azure signature", r"[?&]sig=([A-Za-z0-9%+/]{40,90}(?:%3[Dd]|=))"),
    ("AWS signature", r"X-Amz-Signature=([0-9a-f]{64})"),
    // Cookies of a session (docs.gitlab.com).
    ("GitLab session", r"_gitlab_session=([0-9a-z]{32})"),
    // X (developer.x.com): bearer tokens of applications.
    ("X", r"\bA{20,24}[A-Za-z0-9%]{60,120}"),
    // Okta (developer.okta.com), after its own scheme.
    ("Okta", r"\bSSWS (00[A-Za-z0-9_\-]{38,42})"),
];

/// Addresses that are keys themselves; the group is the secret.
#[rustfmt::skip]
pub(super) const HOOKS: &[&str] = &[
    r"\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{10,})",
    r"\bdiscord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{1,25}/([A-Za-z0-9_\-]{10,})",
    r"\b(?:webhook\.office|outlook\.office(?:365)?)\.com/webhook(?:b2)?/([A-Za-z0-9@/\-]{10,})",
    r"\bhooks\.zapier\.com/hooks/catch/([0-9]{3,}/[A-Za-z0-9]{5,})",
];
