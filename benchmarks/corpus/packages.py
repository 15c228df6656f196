"""The packages of the corpus. Nothing of what their servers say is kept here: it is read when `make corpus` runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_MADE_UP: Final = "not-a-real-key-0000000000000000"


@dataclass(frozen=True, slots=True)
class Package:
    """A package with an MCP server over stdio."""

    registry: str
    """npm or PyPI."""
    name: str
    program: str = ""
    """The command of the package, if it is not the one with the package's name."""
    arguments: tuple[str, ...] = ()
    needs: dict[str, str] = field(default_factory=dict)
    """The variables without which it does not start: keys that are made up, and addresses at which nobody is."""


def npm(name: str, *arguments: str, program: str = "", **needs: str) -> Package:
    return Package("npm", name, program, arguments, needs)


def pypi(name: str, *arguments: str, program: str = "", **needs: str) -> Package:
    return Package("PyPI", name, program, arguments, needs)


PACKAGES: Final = (
    npm("@modelcontextprotocol/server-filesystem", "."),
    npm("@modelcontextprotocol/server-memory"),
    npm("@modelcontextprotocol/server-everything"),
    npm("@modelcontextprotocol/server-sequential-thinking"),
    npm("@modelcontextprotocol/server-github", GITHUB_PERSONAL_ACCESS_TOKEN=_MADE_UP),
    npm("@modelcontextprotocol/server-gitlab", GITLAB_PERSONAL_ACCESS_TOKEN=_MADE_UP),
    npm("@modelcontextprotocol/server-slack", SLACK_BOT_TOKEN=_MADE_UP, SLACK_TEAM_ID="T0000"),
    npm("@modelcontextprotocol/server-postgres", "postgresql://nobody@127.0.0.1:1/none"),
    npm("@modelcontextprotocol/server-puppeteer", PUPPETEER_SKIP_DOWNLOAD="true"),
    npm("@modelcontextprotocol/server-google-maps", GOOGLE_MAPS_API_KEY=_MADE_UP),
    npm("@modelcontextprotocol/server-brave-search", BRAVE_API_KEY=_MADE_UP),
    npm("@modelcontextprotocol/server-everart", EVERART_API_KEY=_MADE_UP),
    npm("@playwright/mcp"),
    npm("@executeautomation/playwright-mcp-server"),
    npm("chrome-devtools-mcp"),
    npm("@browsermcp/mcp"),
    npm("@notionhq/notion-mcp-server", NOTION_TOKEN=_MADE_UP),
    npm("@upstash/context7-mcp"),
    npm("firecrawl-mcp", FIRECRAWL_API_KEY=_MADE_UP),
    npm("tavily-mcp", TAVILY_API_KEY=_MADE_UP),
    npm("exa-mcp-server", EXA_API_KEY=_MADE_UP),
    npm("@brave/brave-search-mcp-server", BRAVE_API_KEY=_MADE_UP),
    npm("@supabase/mcp-server-supabase", SUPABASE_ACCESS_TOKEN=_MADE_UP),
    npm("@stripe/mcp", "--api-key=rk_test_notarealkey0000000000"),
    npm("@sentry/mcp-server", SENTRY_ACCESS_TOKEN=_MADE_UP),
    npm("mongodb-mcp-server"),
    npm("@heroku/mcp-server", HEROKU_API_KEY=_MADE_UP),
    npm("@hubspot/mcp-server", PRIVATE_APP_ACCESS_TOKEN=_MADE_UP),
    npm("mcp-server-kubernetes"),
    npm("kubernetes-mcp-server"),
    npm("@wonderwhy-er/desktop-commander"),
    npm("figma-developer-mcp", "--stdio", FIGMA_API_KEY=_MADE_UP),
    npm("@shopify/dev-mcp"),
    npm("@apify/actors-mcp-server", APIFY_TOKEN=_MADE_UP),
    npm("@benborla29/mcp-server-mysql"),
    npm("@eslint/mcp"),
    npm("@mui/mcp"),
    npm("@zereight/mcp-gitlab", GITLAB_PERSONAL_ACCESS_TOKEN=_MADE_UP),
    npm("@auth0/auth0-mcp-server", "run"),
    npm("airtable-mcp-server", AIRTABLE_API_KEY=_MADE_UP),
    npm("@circleci/mcp-server-circleci", CIRCLECI_TOKEN=_MADE_UP),
    npm("@launchdarkly/mcp-server", "start", "--api-key", _MADE_UP),
    npm("@pinecone-database/mcp", PINECONE_API_KEY=_MADE_UP),
    npm("@mapbox/mcp-server", MAPBOX_ACCESS_TOKEN="pk.eyJ1Ijoibm9ib2R5In0.none"),
    npm("@azure-devops/mcp", "nobody"),
    npm("@antv/mcp-server-chart"),
    npm("mcp-mermaid"),
    npm("n8n-mcp"),
    npm("task-master-ai"),
    npm("@cyanheads/git-mcp-server"),
    npm("@kazuph/mcp-fetch"),
    npm("todoist-mcp", API_KEY=_MADE_UP),
    npm("linear-mcp-server", LINEAR_API_KEY=_MADE_UP),
    npm("@currents/mcp", CURRENTS_API_KEY=_MADE_UP),
    npm("@line/line-bot-mcp-server", CHANNEL_ACCESS_TOKEN=_MADE_UP, DESTINATION_USER_ID="U0"),
    pypi("mcp-server-time"),
    pypi("mcp-server-git"),
    pypi("mcp-server-fetch"),
    pypi("mcp-server-sqlite", "--db-path", "data.db"),
    pypi("mcp-server-calculator"),
    pypi("mcp-server-duckdb", "--db-path", "data.duckdb"),
    pypi("mcp-text-editor"),
    pypi("excel-mcp-server", "stdio"),
    pypi("office-word-mcp-server"),
    pypi("office-powerpoint-mcp-server"),
    pypi("mcp-server-motherduck", "--db-path", ":memory:"),
    pypi("mcp-server-docker"),
    pypi("mcp-atlassian", JIRA_URL="https://nobody.invalid", JIRA_PERSONAL_TOKEN=_MADE_UP),
    pypi("awslabs-aws-documentation-mcp-server", AWS_REGION="us-east-1"),
    pypi("awslabs-dynamodb-mcp-server", AWS_REGION="us-east-1"),
    pypi("awslabs-ec2-mcp-server", AWS_REGION="us-east-1"),
    pypi("awslabs-iam-mcp-server", AWS_REGION="us-east-1"),
    pypi("awslabs-cloudwatch-mcp-server", AWS_REGION="us-east-1"),
    pypi("mcp-clickhouse", CLICKHOUSE_HOST="127.0.0.1", CLICKHOUSE_USER="nobody", CLICKHOUSE_PASSWORD=_MADE_UP),
    pypi("postgres-mcp", DATABASE_URI="postgresql://nobody@127.0.0.1:1/none"),
    pypi("redis-mcp-server"),
    pypi("arxiv-mcp-server"),
    pypi("wikipedia-mcp"),
    pypi("duckduckgo-mcp-server"),
    pypi("markitdown-mcp"),
    pypi("mcp-shell-server", ALLOW_COMMANDS="ls"),
    pypi("code-index-mcp"),
    pypi("zotero-mcp"),
    pypi("blender-mcp"),
    pypi("basic-memory", "mcp"),
    pypi("workspace-mcp", GOOGLE_OAUTH_CLIENT_ID="nobody", GOOGLE_OAUTH_CLIENT_SECRET=_MADE_UP),
    pypi("mcp-google-sheets"),
    pypi("mcp-grafana"),
    pypi("mcp-nixos"),
    pypi("todoist-mcp"),
    pypi("pagerduty-mcp-server", PAGERDUTY_USER_API_KEY=_MADE_UP),
    pypi("prometheus-mcp-server", PROMETHEUS_URL="http://127.0.0.1:1"),
    pypi("mysql-mcp-server", MYSQL_HOST="127.0.0.1", MYSQL_USER="nobody", MYSQL_PASSWORD=_MADE_UP, MYSQL_DATABASE="none"),
    pypi("elevenlabs-mcp", ELEVENLABS_API_KEY=_MADE_UP),
    pypi("logfire-mcp", LOGFIRE_READ_TOKEN=_MADE_UP),
)
