// Opens a page in a headless browser and saves a screenshot.

import { spawn } from 'node:child_process';

// The timeout of a page, in milliseconds.
export const PATIENCE = 90_000;
const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];

export function browse(url, { profile, picture, width, height }) {
  const flags = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--no-first-run',
    '--hide-scrollbars',
    '--force-color-profile=srgb',
    `--user-data-dir=${profile}`,
    `--window-size=${width},${height}`,
    '--virtual-time-budget=20000',
    `--screenshot=${picture}`,
    url,
  ];
  return new Promise((resolve, reject) => {
    const start = ([name, ...others]) => {
      const child = spawn(process.env.CHROMIUM ?? name, flags, { stdio: 'ignore', timeout: PATIENCE });
      child.once('error', (error) =>
        others.length > 0 ? start(others) : reject(new Error(`no browser: install chromium, or name one in CHROMIUM (${error.message})`)),
      );
      child.once('exit', resolve);
    };
    start(BROWSERS);
  });
}
