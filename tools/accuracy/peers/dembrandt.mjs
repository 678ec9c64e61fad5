// Runs dembrandt in Chromium: a page in a line of JSON, and its fields in another. The browser reaches the sites through
// the proxy in HTTPS_PROXY; CHROMIUM names its program.
import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

const pageTime = 100_000 // ms; dembrandt itself gives up after 90 s
const profile = mkdtempSync(join(tmpdir(), 'dembrandt-'))
const chromium = spawn(process.env.CHROMIUM, ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0',
  `--proxy-server=${process.env.HTTPS_PROXY}`, '--ignore-certificate-errors', `--user-data-dir=${profile}`, 'about:blank'])
const endpoint = await new Promise((resolve, reject) => {
  createInterface({ input: chromium.stderr }).on('line', (line) => {
    const found = line.match(/DevTools listening on (ws:\S+)/)
    if (found) resolve(found[1])
  })
  chromium.on('exit', () => reject(new Error('Chromium does not start')))
})

const end = () => {
  chromium.removeAllListeners('exit')
  chromium.on('exit', () => {
    rmSync(profile, { recursive: true, force: true })
    process.exit()
  })
  chromium.kill()
}
process.on('SIGINT', end)

const run = promisify(execFile)
for await (const line of createInterface({ input: process.stdin })) {
  const { url } = JSON.parse(line)
  let fields = {}
  try {
    const { stdout } = await run(process.execPath, ['node_modules/dembrandt/dist/index.js', url, '--json-only'],
      { env: { ...process.env, BROWSER_CDP_ENDPOINT: endpoint }, timeout: pageTime, maxBuffer: 64 << 20 })
    const found = JSON.parse(stdout)
    const style = (context) => found.typography?.styles?.find((s) => s.context === context)?.family
    const accent = found.colors?.semantic?.primary ?? found.colors?.palette?.find((c) => c.role === 'accent')?.normalized
    fields = { name: found.siteName, logo: found.logo?.url, accent, titleFont: style('heading-1'), bodyFont: style('body') }
  } catch (error) {
    fields = { error: String(error).slice(0, 300) }
  }
  process.stdout.write(JSON.stringify(fields) + '\n')
}
end()
