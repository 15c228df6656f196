// Markdown of a reply as elements of the page. Nothing is HTML, no image is loaded, and a link shows its address.
import { Lexer } from "marked";
import type { Token, Tokens, TokensList } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { Visible } from "./visible";

/** What is nested deeper is shown as it was written: each level takes a part of the browser's stack. */
const MAX_DEPTH = 20;

export function Markdown({ text }: { text: string }): VNode {
  return <>{nodes(new BoundedLexer({ gfm: true, breaks: true }).lex(text))}</>;
}

class BoundedLexer extends Lexer {
  #depth = 0;

  override blockTokens(src: string, tokens?: Token[], isClipped?: boolean): Token[];
  override blockTokens(src: string, tokens?: TokensList, isClipped?: boolean): TokensList;
  override blockTokens(src: string, tokens: Token[] = [], isClipped?: boolean): Token[] {
    return this.#within(src, tokens, () => super.blockTokens(src, tokens, isClipped));
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    return this.#within(src, tokens, () => super.inlineTokens(src, tokens));
  }

  #within(src: string, tokens: Token[], read: () => Token[]): Token[] {
    if (this.#depth >= MAX_DEPTH) {
      tokens.push({ type: "raw", raw: src });
      return tokens;
    }
    this.#depth += 1;
    try {
      return read();
    } finally {
      this.#depth -= 1;
    }
  }
}

function nodes(tokens: readonly Token[] | undefined): ComponentChildren {
  return (tokens ?? []).map((token, index) => <Node key={index} token={token} />);
}

/** One token; what has no element here, such as HTML, stays the text that it is. */
function Node({ token }: { token: Token }): VNode | null {
  const inner = (): ComponentChildren => nodes((token as Tokens.Generic).tokens);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      // The page has headings of its own, so one of a reply is a paragraph for a screen reader.
      return <p class="heading">{inner()}</p>;
    case "paragraph":
      return <p>{inner()}</p>;
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "list":
      return <List list={token as Tokens.List} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "code":
      return (
        <pre tabindex={0}>
          <code>
            <Visible text={(token as Tokens.Code).text} />
          </code>
        </pre>
      );
    case "codespan":
      return (
        <code>
          <Visible text={(token as Tokens.Codespan).text} />
        </code>
      );
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "br":
      return <br />;
    case "link":
      return <Link link={token as Tokens.Link} />;
    case "escape":
      return <Visible text={(token as Tokens.Escape).text} />;
    case "text":
      // The text of a list's item is a block with tokens of its own.
      return (token as Tokens.Text).tokens ? <>{inner()}</> : <Visible text={characters((token as Tokens.Text).text)} />;
    default:
      return <Visible text={token.raw} />;
  }
}

function List({ list }: { list: Tokens.List }): VNode {
  const items = list.items.map((item, index) => (
    <li key={index} {...(item.task && { class: "task" })}>
      {item.task && <span class={`box ${item.checked ? "checked" : ""}`} role="img" aria-label={item.checked ? "done" : "open"} />}
      {nodes(item.tokens.filter(({ type }) => type !== "checkbox"))}
    </li>
  ));
  return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table }: { table: Tokens.Table }): VNode {
  const align = (index: number): object => (table.align[index] ? { class: `align-${table.align[index]}` } : {});
  return (
    <div class="table" tabindex={0}>
      <table>
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} {...align(index)}>
                {nodes(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, index) => (
                <td key={index} {...align(index)}>
                  {nodes(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A link to another site, with its address beside another text: the text alone could name any site. */
function Link({ link }: { link: Tokens.Link }): VNode {
  const target = address(link.href);
  if (!target) return <Visible text={link.raw} />;
  const bare = [target, target.replace(/\/$/, ""), target.replace(/^mailto:/, "")].includes(link.text);
  return (
    <>
      <a href={target} target="_blank" rel="noopener noreferrer nofollow">
        {bare ? <Visible text={link.text} /> : nodes(link.tokens)}
      </a>
      {!bare && (
        <span class="address">
          {" "}
          (<Visible text={target} />)
        </span>
      )}
    </>
  );
}

/** The address as the browser would open it, if it is one of the web or of mail. */
function address(href: string): string | null {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) && !url.username && !url.password ? url.href : null;
  } catch {
    return null;
  }
}

const REFERENCES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" };

/** The text with the few character references that models write. */
function characters(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => REFERENCES[name] ?? "");
}
